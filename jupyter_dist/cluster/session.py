"""A connection to a running cluster, and everything that can be asked of it."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from weakref import WeakSet, finalize

import msgspec
from msgspec.structs import replace

from jupyter_dist.cluster.bench import run_bench
from jupyter_dist.cluster.checkpoints import checkpoint, checkpoints, restore
from jupyter_dist.cluster.code.sync import RELOAD_COMMAND, Paths, SyncResult, sync_code
from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog, read_collectives
from jupyter_dist.cluster.collectives.timeline_file import (
    WrittenTimeline,
    find_target,
    write_timeline,
)
from jupyter_dist.cluster.connection.connection import Connection, check_not_forked
from jupyter_dist.cluster.connection.queued_request import OnStage, ask_at_fence
from jupyter_dist.cluster.connection.status_watch import StatusWatch, Subscriber
from jupyter_dist.cluster.healing import Healed, Shrunken
from jupyter_dist.cluster.ipyparallel.controller import ipyparallel, leave_ipyparallel
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spec.checks import Ranks, WantedRanks, check_timeout, read_ranks
from jupyter_dist.cluster.spmd import CellWatcher, check_syntax, run_cell
from jupyter_dist.cluster.status import ClusterStatus
from jupyter_dist.cluster.transfer import ObjectTransfer, OnMoved
from jupyter_dist.cluster.variables.names_table import NamesTable
from jupyter_dist.cluster.variables.rank_queries import (
    Stacks,
    ask_completions,
    ask_explanation,
    ask_inspection,
    ask_stacks,
    ask_who,
)
from jupyter_dist.errors import ClusterGone
from jupyter_dist.launch.files.connection_file import ConnectionInfo
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.ranks.records import DEFAULT_LAST
from jupyter_dist.model.spec.error_policy import read_on_error
from jupyter_dist.model.spec.shutdown_time import longest_end_s
from jupyter_dist.options.start_options import StrPath
from jupyter_dist.protocol.identity import line_identity, new_client
from jupyter_dist.protocol.messages import (
    AwaitReady,
    CellInterruptSent,
    ClusterReady,
    Command,
    Completions,
    HealRanks,
    InterruptCell,
    RanksHealed,
    ShrinkCluster,
    Shrunk,
    StartProgress,
    SubmitCell,
    ToClient,
    TopologyChanged,
    WatchTopology,
)

ANSWER_TIMEOUT_S = 10.0
"""A question that needs no rank is answered at once, or nobody is there."""


class Session:
    """What a Cluster is once it runs; see Cluster for how it begins and ends."""

    def __init__(self, connection: ConnectionInfo) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._client = new_client()
        self._line_numbers = count(1)
        self._lines: WeakSet[Connection] = WeakSet()
        self._opening = threading.Lock()
        self._is_open = True
        # Cells may run for hours, and ranks may take seconds for an answer: the watch, and what is
        # answered at once, have lines of their own, and so has every question to ranks.
        self._cells = self._new_line()
        self._control = self._new_line()
        self._watch = StatusWatch(self._new_line(), connection.name)
        finalize(self, self._watch.leaving.want).atexit = False  # one that is dropped is detached
        self._world_size = connection.world_size
        self._generation = 0
        """The one in which that was the number of ranks."""
        self.log_dirs: dict[str, str] = {}
        """For each host, where what its ranks say is kept until the cluster stops."""
        self.notes: tuple[str, ...] = ()
        """What to know about its hosts, as versions that differ; one sentence each."""
        self.is_saving_behind = False
        """Ranks may be saving behind cells what was asked for without `wait`: to end waits."""

    # --- facts ---

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self._connection.name

    @property
    def longest_end_s(self) -> float:
        """The longest time in which a coordinator that works ends this cluster."""
        return longest_end_s(self._connection.hosts)

    @property
    def world_size(self) -> int:
        """Number of ranks; it changes when someone lets the cluster shrink."""
        seen = self._watch.last
        is_newer = seen.generation > self._generation and seen.engines
        return len(seen.engines) if is_newer else self._world_size

    @property
    def is_running(self) -> bool:
        """Its coordinator lives, and we are connected."""
        return self._is_open and process_lives(self._connection.coordinator_pid)

    # --- cells ---

    def run(  # noqa: PLR0913  (each is an option of %%spmd)
        self,
        code: str,
        ranks: Ranks = None,
        timeout_s: float | None = None,
        *,
        label: int = 1,
        is_setup: bool = False,
        check: bool = False,
        on_error: str = "release",
        watcher: CellWatcher | None = None,
    ) -> SpmdResult:
        """Run code on the ranks (None: all) and give what happened, a lost rank included.

        Raises SyntaxError and UsageError (no rank ran it), CellRefused (the fence stays closed:
        a rank is lost) and ClusterGone. A first Ctrl-C interrupts the ranks, a second one is
        raised as KeyboardInterrupt; `label` is the n of the cell's `In[n]`. With `check` ranks
        compare each collective before they begin it. `on_error` says what becomes of the others
        when one raises: they leave collectives (release), are interrupted (interrupt), or go on
        (wait).
        """
        wanted = self._check(ranks, timeout_s)
        policy, is_plain = read_on_error(on_error), check_syntax(code, label)
        request_id = self._cells.new_request_id()
        request = SubmitCell(
            request_id, code, wanted, timeout_s, label, is_setup, is_plain, check, policy
        )
        return run_cell(self._cells, request, watcher)

    def run_command(
        self,
        command: Command,
        ranks: Ranks = None,
        *,
        label: int = 1,
        watcher: CellWatcher | None = None,
    ) -> SpmdResult:
        """Have ranks (None: all) carry out a command in place of a cell; see `run`."""
        request_id, wanted = self._cells.new_request_id(), self._check(ranks)
        request = SubmitCell(request_id, command.title, wanted, label=label, command=command)
        return run_cell(self._cells, request, watcher)

    bench = run_bench
    checkpoint = checkpoint
    restore = restore
    checkpoints = checkpoints
    ipyparallel = ipyparallel
    leave_ipyparallel = leave_ipyparallel

    def interrupt(self, ranks: Ranks = None) -> tuple[int, ...]:
        """Send SIGINT to what runs on the ranks; give those that were busy."""
        wanted = read_ranks(ranks, self.world_size)
        with contextlib.closing(self._new_line()) as line:
            request = InterruptCell(line.new_request_id(), wanted)
            return line.ask(request, CellInterruptSent, timeout_s=ANSWER_TIMEOUT_S)[0].ranks

    # --- lost ranks ---

    def heal(self, ranks: Ranks = None, *, on_stage: OnStage | None = None) -> Healed:
        """Replace these ranks (None: those that are lost); the others keep everything they have.

        A rank that lives is killed first: so a rank is replaced that no interrupt reaches.
        New ranks run the cells that were marked as setup. Waits until nothing runs on the others;
        `on_stage` gets a sentence on what is waited for. Ctrl-C takes back what has not begun.
        Raises UsageError (every rank is there) and HealFailed.
        """
        with contextlib.closing(self._new_line()) as line:
            request = HealRanks(line.new_request_id(), read_ranks(ranks, self.world_size))
            healed = ask_at_fence(line, request, RanksHealed, on_stage)
        self._await_ready(None)
        return msgspec.convert(healed, Healed, from_attributes=True)

    def shrink(self, *, on_stage: OnStage | None = None) -> Shrunken:
        """Go on without the lost ranks; the others keep everything, and are numbered again.

        Waits, and can be cancelled, as `heal` does. Raises UsageError (no rank is lost, or all are)
        and HealFailed.
        """
        with contextlib.closing(self._new_line()) as line:
            shrunken = ask_at_fence(line, ShrinkCluster(line.new_request_id()), Shrunk, on_stage)
        self._await_ready(None)
        return msgspec.convert(shrunken, Shrunken, from_attributes=True)

    # --- objects ---

    def push(
        self,
        objects: Mapping[str, object],
        ranks: Ranks = None,
        *,
        timeout_s: float | None = None,
        on_stage: OnStage | None = None,
        on_moved: OnMoved | None = None,
    ) -> None:
        """Put objects into the ranks' namespaces under their names.

        Waits until ranks are idle; `on_stage` gets a sentence on what is waited for, and `on_moved`
        how much has arrived, of what takes more than half a second. Ctrl-C takes back what has not
        begun, and interrupts ranks that rebuild it, as `timeout_s` seconds after they began do.
        Raises TransferError naming the object and the rank that could not take it.
        """
        wanted = self._check(ranks, timeout_s)
        ObjectTransfer(self._cells, on_stage, on_moved).push(objects, wanted, timeout_s)

    def pull(
        self,
        name: str,
        ranks: Ranks = None,
        *,
        timeout_s: float | None = None,
        on_stage: OnStage | None = None,
        on_moved: OnMoved | None = None,
    ) -> dict[int, object]:
        """Fetch one name from the ranks: rank -> object.

        Waits, is followed, cancelled and interrupted as `push` is. Raises TransferError naming the
        rank that has no such name or cannot send it.
        """
        wanted = self._check(ranks, timeout_s)
        return ObjectTransfer(self._cells, on_stage, on_moved).pull(name, wanted, timeout_s)

    def sync(
        self,
        paths: Paths,
        reload: bool = False,
        *,
        force: bool = False,
        on_moved: OnMoved | None = None,
    ) -> SyncResult:
        """Copy code to every host and make it importable there: see `sync_code`.

        With `reload` ranks then load modules again whose source has changed, once they are idle:
        `result.reload` is what came of that cell. `force` lifts the limits.
        """
        with contextlib.closing(self._new_line()) as line:
            result = sync_code(line, paths, is_forced=force, on_moved=on_moved)
        return replace(result, reload=self.run_command(RELOAD_COMMAND)) if reload else result

    # --- looking ---

    def who(
        self, patterns: str | Iterable[str] = (), ranks: Ranks = None, *, largest: int | None = None
    ) -> NamesTable:
        """List the variables of ranks (of these patterns, as `w*`), and mark what differs.

        Ranks may be busy meanwhile; those that do not answer are named in the table's notes. With
        `largest` only so many of each rank are listed, first those that hold most memory.
        """
        with contextlib.closing(self._new_line()) as line:
            return ask_who(line, patterns, read_ranks(ranks, self.world_size), largest)

    def stacks(self, ranks: Ranks = None, *, native: bool = False) -> Stacks:
        """Return what each rank is doing, also one whose interpreter does not answer.

        With `native` calls of C and C++ are shown too, where py-spy is installed and may look.
        """
        with contextlib.closing(self._new_line()) as line:
            return ask_stacks(line, read_ranks(ranks, self.world_size), is_native=native)

    def explain(self) -> str:
        """Return what is the matter with the running cell and lost ranks, and what can be done."""
        with contextlib.closing(self._new_line()) as line:
            return ask_explanation(line, self.world_size)

    def complete(self, code: str, cursor: int, rank: int = 0) -> Completions:
        """Return completions at a place of a cell on a rank; none after 0.5 s of silence."""
        self._check_open()
        return ask_completions(self._control, code, cursor, rank)

    def inspect(self, name: str, rank: int = 0, *, detail: int = 0) -> dict[str, str]:
        """Describe an object of a rank as a MIME bundle; empty: none, or 0.5 s of silence."""
        self._check_open()
        return ask_inspection(self._control, name, rank, detail)

    def collectives(self, last: int = DEFAULT_LAST) -> CollectiveLog:
        """Return the last calls of ranks (0: all that are kept), stuck and lost ones included."""
        with contextlib.closing(self._new_line()) as line:
            return read_collectives(line, self.world_size, last)

    def timeline(self, path: StrPath, *, force: bool = False) -> WrittenTimeline:
        """Write the cells and collectives of all ranks as a trace that Perfetto opens.

        Raises UsageError for a file that is not a trace of ours already, unless it is forced.
        """
        target = find_target(path, is_forced=force)
        return write_timeline(self.collectives(last=0), self.name, path, target)

    def status(self) -> ClusterStatus:
        """Return how the cluster is; `str()` of it is a table."""
        return ClusterStatus(self.topology())

    def topology(self) -> Topology:
        """Describe hosts and ranks at this moment; state `gone` when nobody answers."""
        if not self._is_open:
            return Topology(cluster=self.name, state="stopped")
        try:
            request = WatchTopology(self._control.new_request_id())
            seen, _ = self._control.ask(request, TopologyChanged, timeout_s=ANSWER_TIMEOUT_S)
        except ClusterGone:
            return Topology(cluster=self.name, state="gone")
        return seen.topology

    def watch_topology(self, callback: Subscriber, interval_s: float = 0.25) -> Callable[[], None]:
        """Call back with the topology every `interval_s`, on a background thread.

        The last call has the state `stopped` or `gone`. Gives a function that ends it.
        """
        return self._watch.subscribe(callback, interval_s)

    def _await_ready(self, on_progress: Callable[[StartProgress], None] | None) -> None:
        def pass_on(message: ToClient) -> None:
            if isinstance(message, StartProgress) and on_progress is not None:
                on_progress(message)

        request = AwaitReady(self._control.new_request_id())
        ready, _ = self._control.ask(request, ClusterReady, on_other=pass_on)
        self.log_dirs = dict(ready.log_dirs)
        self.notes = ready.notes
        self._world_size, self._generation = ready.world_size, ready.generation

    def _new_line(self) -> Connection:
        check_not_forked(self._pid, self.name)  # before a lock that a fork may have copied
        with self._opening:
            self._check_open()
            identity = line_identity(self._client, next(self._line_numbers))
            line = Connection(self._connection, identity)
            self._lines.add(line)
            return line

    def _close_lines(self) -> None:
        """Close every line; threads that wait for an answer on one raise ClusterGone first."""
        with self._opening:
            self._is_open = False
            lines = list(self._lines)
        for line in lines:
            line.close()

    def _check(self, ranks: Ranks, timeout_s: float | None = None) -> WantedRanks:
        """Check what is asked of ranks; return which they are."""
        self._check_open()
        check_timeout(timeout_s)
        return read_ranks(ranks, self.world_size)

    def _check_open(self) -> None:
        check_not_forked(self._pid, self.name)
        if not self._is_open:
            raise ClusterGone(self.name, "it was stopped, or this object was detached from it")
