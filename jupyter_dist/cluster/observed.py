"""A connection to a running cluster, and everything that can be seen of it."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakSet, finalize

from jupyter_dist.cluster.cells.followed_cells import Replay, read_label
from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog, read_collectives
from jupyter_dist.cluster.collectives.timeline_file import write_timeline_of
from jupyter_dist.cluster.connection.connection import Connection, check_not_forked
from jupyter_dist.cluster.connection.status_watch import StatusWatch, Subscriber
from jupyter_dist.cluster.spec.checks import On, Ranks, WantedRanks, check_timeout, read_ranks
from jupyter_dist.cluster.status import ClusterStatus
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
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.ranks.records import DEFAULT_LAST
from jupyter_dist.model.spec.shutdown_time import longest_end_s
from jupyter_dist.protocol.identity import line_identity, new_client
from jupyter_dist.protocol.messages import (
    Assist,
    AwaitReady,
    CellsListed,
    ClusterReady,
    Completions,
    Grant,
    GrantsListed,
    KeptCell,
    ListCells,
    ListGrants,
    LocateRanks,
    NameAxes,
    OutputReplayed,
    RanksLocated,
    ReplayOutput,
    RevokeGrants,
    RoleGranted,
    StartProgress,
    ToClient,
    TopologyChanged,
    WatchTopology,
)

if TYPE_CHECKING:
    from jupyter_dist.cluster.debugging.address import DebugAddress
    from jupyter_dist.cluster.grants.giving import GivenGrant
    from jupyter_dist.cluster.profiling.collecting import Profiling
    from jupyter_dist.cluster.profiling.profile import Profile
    from jupyter_dist.cluster.variables.shown_values import ShownValues
    from jupyter_dist.cluster.widget_line import WidgetLine

ANSWER_TIMEOUT_S = 10.0
"""Seconds to wait for an answer that needs no rank; a working coordinator gives it at once."""


class ObservedCluster:
    """A client of a cluster that runs: its lines, and what can be seen by them."""

    def __init__(self, connection: ConnectionInfo) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._client = new_client(is_far=bool(connection.coordinator_host))
        self._line_numbers = count(1)
        self._lines: WeakSet[Connection] = WeakSet()
        self._opening = threading.Lock()
        self._is_open = True
        # Cells may run for hours, and ranks may take seconds for an answer: the watch, and what is
        # answered at once, have lines of their own, and so has every question to ranks.
        self._cells = self._new_line()
        self._control = self._new_line()
        self._widget_line: WidgetLine | None = None
        self._watch = StatusWatch(self._new_line(), connection.name)
        finalize(self, self._watch.leaving.want).atexit = False  # one that is dropped is detached
        self._world_size = connection.world_size
        self._generation = 0
        """The one in which that was the number of ranks."""
        self.log_dirs: dict[str, str] = {}
        """For each host, where what its ranks say is kept until the cluster stops."""
        self.notes: tuple[str, ...] = ()
        """What to know about its hosts, as versions that differ; one sentence each."""
        self._axes = Axes()
        """As they were told last; other clients may have named others."""
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
    def axes(self) -> Axes:
        """The axes over its ranks; `str()` is a table. See `name_axes`, and `select`."""
        seen = self._watch.last.axes
        return seen if seen.version > self._axes.version else self._axes

    @property
    def is_running(self) -> bool:
        """Its coordinator lives, and we are connected."""
        return self._is_open and process_lives(self._connection.coordinator_pid)

    # --- looking ---

    def select(self, ranks: Ranks = None, on: On = None) -> WantedRanks:
        """Return the ranks that are meant, sorted; None: all.

        `on` names hosts and coordinates along axes, as `"nodeA,nodeB"`, `"node[01-04]"`,
        `"data=0-1,model=1"` or `{"data": 0}`; of both, and of `ranks`, all must hold. Raise
        UsageError for what there is not, and where no rank is left.
        """
        if on is None:
            return read_ranks(ranks, self.world_size)
        from jupyter_dist.cluster.axes.selection import select_ranks

        self._check_open()
        located = self._locate(LocateRanks(self._control.new_request_id()))
        return select_ranks(ranks, on, located.hosts, located.axes)

    def _locate(self, request: LocateRanks | NameAxes) -> RanksLocated:
        located, _ = self._control.ask(request, RanksLocated, timeout_s=ANSWER_TIMEOUT_S)
        self._axes = located.axes
        return located

    def outputs(self) -> tuple[KeptCell, ...]:
        """List the cells whose outputs are kept, the oldest first; the last may be running."""
        self._check_open()
        request = ListCells(self._control.new_request_id())
        return self._control.ask(request, CellsListed, timeout_s=ANSWER_TIMEOUT_S)[0].cells

    def replay(self, label: str | int | None = None, *, since: int = 0) -> Replay:
        """Return again what a cell, `3` or `In[3]`, or the last one has said; raises UsageError.

        `since` is the `mark` of an earlier replay of it: only what came later is sent.
        """
        with contextlib.closing(self._new_line()) as line:
            request = ReplayOutput(line.new_request_id(), read_label(label), since)
            found, _ = line.ask(request, OutputReplayed, timeout_s=ANSWER_TIMEOUT_S)
        return Replay(found.cell, found.events, found.omitted_bytes, found.mark)

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

    def show_values(
        self, place: str, ranks: Ranks = None, *, most_characters: int = 2000
    ) -> "ShownValues":
        """Show what ranks have at a place, as `w[:10]` or `state["loss"][-1]`, as text.

        They may be busy, or stuck. No code runs for it: a place is a name with attributes, numbers,
        texts and slices; what only code of a class could give is not shown. Raises UsageError.
        """
        from jupyter_dist.cluster.variables.shown_values import show_values

        wanted = read_ranks(ranks, self.world_size)
        with contextlib.closing(self._new_line()) as line:
            return show_values(line, place, wanted, most_characters)

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

    timeline = write_timeline_of

    def listen_for_debuggers(
        self, listen: str = "127.0.0.1:0", ranks: Ranks = None, on: On = None
    ) -> "DebugAddress":
        """Return an address for debuggers of ranks (None: all). Raise UsageError if it is wrong."""
        from jupyter_dist.cluster.debugging.address import DebugAddress

        return DebugAddress(self, self._connection, listen, self._check(ranks, on=on))

    def profile(
        self,
        seconds: float = 5.0,
        ranks: Ranks = None,
        *,
        mode: str = "sampling",
        native: bool = False,
        on: On = None,
    ) -> "Profile":
        """Note for some seconds what ranks do, and return who is slow, and where.

        The mode is sampling, memory, jax or torch. With `native` calls and memory of C and C++ are
        seen too, where py-spy or memray is installed and may look; the notes say where not. Raise
        UsageError where no profile can be taken, as while another one runs. Ctrl-C ends it earlier.
        """
        from jupyter_dist.cluster.profiling.collecting import take_profile

        chosen = self._name_ranks(ranks, on)
        return take_profile(self, self._new_line, chosen, mode, seconds, native=native)

    def begin_profile(
        self, ranks: Ranks = None, *, mode: str = "sampling", native: bool = False, on: On = None
    ) -> "Profiling":
        """Have ranks note what they do until `end()` of what is returned; else as `profile`."""
        from jupyter_dist.cluster.profiling.collecting import begin_profile

        return begin_profile(self, self._new_line, self._name_ranks(ranks, on), mode, native=native)

    # --- AI agents ---

    def allow_agents(self, may: str | Iterable[str], *, for_s: float) -> "GivenGrant":
        """Let AI agents act for so many seconds: `may` is of run, interrupt, heal and checkpoint.

        Return the grant, with the token that an agent needs. It ends by time, by `revoke_grants`
        and with the cluster; a cell that was begun by it goes on. Raise UsageError.
        """
        from jupyter_dist.cluster.grants.giving import allow_agents

        with contextlib.closing(self._new_line()) as line:
            return allow_agents(line, self.name, may, for_s)

    def grants(self) -> tuple[Grant, ...]:
        """Return the grants that hold, without their tokens, and what was done by them."""
        with contextlib.closing(self._new_line()) as line:
            request = ListGrants(line.new_request_id())
            return line.ask(request, GrantsListed, timeout_s=ANSWER_TIMEOUT_S)[0].grants

    def revoke_grants(self, number: int = 0) -> tuple[Grant, ...]:
        """Revoke a grant (0: all); return what held. Raise UsageError for one that does not.

        Cells that were begun by it go on.
        """
        with contextlib.closing(self._new_line()) as line:
            request = RevokeGrants(line.new_request_id(), number)
            return line.ask(request, GrantsListed, timeout_s=ANSWER_TIMEOUT_S)[0].grants

    def assist(self, who: str, grant: str = "") -> None:
        """Act for an AI agent from now on, on every line of this client.

        It may look, and do what the grant with this token is for; what it does is shown in the
        notebook with `who`. Raise NotAllowed for a token that does not hold here.
        """
        request = Assist(self._control.new_request_id(), os.getpid(), who, grant)
        self._control.ask(request, RoleGranted, timeout_s=ANSWER_TIMEOUT_S)

    def status(self) -> ClusterStatus:
        """Return how the cluster is; `str()` of it is a table."""
        return ClusterStatus(self.topology())

    def topology(self) -> Topology:
        """Describe hosts and ranks now; state `gone` when the coordinator does not answer."""
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
        self.notes, self._axes = ready.notes, ready.axes
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

    def _check(self, ranks: Ranks, timeout_s: float | None = None, on: On = None) -> WantedRanks:
        """Check what is asked of ranks; return which they are."""
        self._check_open()
        check_timeout(timeout_s)
        if self._widget_line is not None:
            self._widget_line.settle()
        return read_ranks(ranks, self.world_size) if on is None else self.select(ranks, on)

    def _name_ranks(self, ranks: Ranks, on: On) -> tuple[int, ...]:
        """Check what is asked of ranks; return which they are, also where they are all."""
        wanted = self._check(ranks, on=on)
        return tuple(range(self.world_size)) if wanted is None else wanted

    def _check_open(self) -> None:
        check_not_forked(self._pid, self.name)
        if not self._is_open:
            raise ClusterGone(self.name, "it was stopped, or this object was detached from it")
