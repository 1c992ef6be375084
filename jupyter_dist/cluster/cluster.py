"""The public face: start a cluster, run cells on its ranks, move objects, stop it."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from jupyter_dist.cluster.at_exit import detach_at_exit
from jupyter_dist.cluster.checks import Ranks, read_ranks
from jupyter_dist.cluster.coordinator_process import CoordinatorProcess
from jupyter_dist.cluster.line import Line
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.specification import StrPath, Wishes, specify
from jupyter_dist.cluster.spmd import CellWatcher, check_syntax, run_cell
from jupyter_dist.cluster.status import ClusterStatus
from jupyter_dist.cluster.sync import RELOAD_CELL, Paths, SyncResult, sync_code
from jupyter_dist.cluster.watch import Subscriber, Watch
from jupyter_dist.control.context import new_context
from jupyter_dist.errors import (
    ClusterExists,
    ClusterGone,
    NoCluster,
    StartFailed,
    UsageError,
)
from jupyter_dist.launch.connection_file import (
    ConnectionInfo,
    connection_path,
    read_connection,
    running_clusters,
)
from jupyter_dist.launch.lifeline import process_lives
from jupyter_dist.model.spec import ClusterSpec, HostSpec
from jupyter_dist.model.topology import Topology
from jupyter_dist.protocol.messages import (
    AwaitReady,
    CellInterruptSent,
    ClusterReady,
    ClusterStopping,
    InterruptCell,
    ObjectPulled,
    ObjectsPushed,
    PullObject,
    PushObjects,
    StartProgress,
    StopCluster,
    SubmitCell,
    ToClient,
    TopologyChanged,
    WatchTopology,
)
from jupyter_dist.protocol.objects import pack, raise_problems, split_frames, unpack

ANSWER_TIMEOUT_S = 10.0
"""A question that needs no rank is answered at once, or nobody is there."""
STOP_TIMEOUT_S = 15.0


class Cluster:
    """A running cluster of engines, one per rank; use it as a context manager, or stop it."""

    def __init__(
        self, connection: ConnectionInfo, process: CoordinatorProcess | None = None
    ) -> None:
        self._connection = connection
        self._process = process
        self._context = new_context()
        # Cells may run for hours; interrupts, questions and the watch must not wait behind them.
        self._cells = Line(self._context, connection)
        self._control = Line(self._context, connection)
        self._watch = Watch(Line(self._context, connection), connection.name)
        self._is_open = True
        self._world_size = connection.world_size
        self.log_dirs: dict[str, str] = {}
        """For each host, where what its ranks say is kept until the cluster stops."""
        self.notes: tuple[str, ...] = ()
        """What to know about its hosts, as versions that differ; one sentence each."""
        detach_at_exit(self)

    # --- beginning and end ---

    @classmethod
    def start(  # noqa: PLR0913  (each is an option of %dist_start)
        cls,
        hosts: str | Sequence[HostSpec] | None = None,
        *,
        hostfile: StrPath | None = None,
        spec: StrPath | ClusterSpec | None = None,
        name: str | None = None,
        timeout_s: float | None = None,
        keep_s: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: StrPath | None = None,
        comm: str | None = None,
        python: str | None = None,
        ssh: str | Sequence[str] | None = None,
        interface: str | None = None,
        ports: str | None = None,
        tunnel: bool | None = None,
        install: bool | None = None,
        wheelhouse: StrPath | None = None,
        one_machine: bool | None = None,
        start_method: str | None = None,
        on_progress: Callable[[StartProgress], None] | None = None,
    ) -> Self:
        """Start engines on the hosts (none named: four on this machine), until all are ready.

        One of `hosts`, `hostfile` (a path) and `spec` (the path of a TOML file, or a ClusterSpec)
        names the hosts; everything else, where it is given, goes before what the spec says.
        Raises UsageError (nothing was started) or StartFailed (everything was cleaned up).
        The cluster lives on after this process, for `keep_s` seconds without a client.
        """
        wishes = Wishes(name=name, timeout_s=timeout_s, keep_s=keep_s, env=env, cwd=cwd, comm=comm)
        wishes |= {"python": python, "ssh": ssh, "interface": interface, "ports": ports}
        wishes |= {"tunnel": tunnel}
        wishes |= {"install": install, "wheelhouse": wheelhouse, "one_machine": one_machine}
        wishes |= {"start_method": start_method}
        spec = specify(hosts, hostfile=hostfile, spec_file=spec, **wishes)
        if read_connection(connection_path(spec.name)) is not None:
            raise ClusterExists(spec.name)
        process = CoordinatorProcess(spec)
        try:
            cluster = cls(process.wait_for_report(spec.timeout_s), process)
        except BaseException:
            process.end()
            raise
        try:
            cluster._await_ready(on_progress)
        except BaseException as error:
            cluster.detach()
            process.end()
            if isinstance(error, ClusterGone):
                raise StartFailed(f"cluster {spec.name!r} did not start: {error.reason}") from error
            raise
        return cluster

    @classmethod
    def attach(cls, name: str | None = None) -> Self:
        """Connect to a running cluster: the one with this name, or the only one.

        Raises NoCluster naming those that run.
        """
        running = {info.name: info for info in running_clusters()}
        if name is None and len(running) == 1:
            name = next(iter(running))
        if name is None or name not in running:
            raise NoCluster(name, sorted(running))
        cluster = cls(running[name])
        try:
            cluster._await_ready(None)
        except BaseException:
            cluster.detach()
            raise
        return cluster

    @staticmethod
    def running() -> list[str]:
        """Names of this user's clusters that run on this machine."""
        return [info.name for info in running_clusters()]

    def stop(self) -> None:
        """End every process of the cluster and remove every file; harmless when it is gone."""
        if not self._is_open:
            return
        try:
            request = StopCluster(self._control.new_request_id())
            self._control.ask(request, ClusterStopping, timeout_s=STOP_TIMEOUT_S)
        except ClusterGone:
            pass
        finally:
            self._wait_for_end()
            self.detach()

    def detach(self) -> None:
        """Close our connections; the cluster goes on."""
        if not self._is_open:
            return
        self._is_open = False
        self._watch.close()
        self._cells.close()
        self._control.close()
        self._context.destroy(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.is_running else "gone"
        return f"<Cluster {self.name!r}: {self.world_size} ranks, {state}>"

    # --- facts ---

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self._connection.name

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._world_size

    @property
    def is_running(self) -> bool:
        """Its coordinator lives, and we are connected."""
        return self._is_open and process_lives(self._connection.coordinator_pid)

    # --- cells ---

    def run(
        self,
        code: str,
        ranks: Ranks = None,
        timeout_s: float | None = None,
        *,
        label: int = 1,
        is_setup: bool = False,
        watcher: CellWatcher | None = None,
    ) -> SpmdResult:
        """Run code on the ranks (None: all) and give what happened, a lost rank included.

        Raises SyntaxError and UsageError (no rank ran it), CellRefused (the fence stays closed:
        a rank is lost) and ClusterGone. A first Ctrl-C interrupts the ranks, a second one is
        raised as KeyboardInterrupt; `label` is the n of the cell's `In[n]`.
        """
        self._check_open()
        wanted = read_ranks(ranks, self.world_size)
        if timeout_s is not None and not timeout_s > 0:
            raise UsageError(f"timeout {timeout_s} is not accepted: it must be more than 0 s.")
        is_plain = check_syntax(code, label)
        request = SubmitCell(
            self._cells.new_request_id(), code, wanted, timeout_s, label, is_setup, is_plain
        )
        return run_cell(self._cells, request, watcher)

    def interrupt(self, ranks: Ranks = None) -> tuple[int, ...]:
        """Send SIGINT to what runs on the ranks; give those that were busy."""
        self._check_open()
        request = InterruptCell(self._control.new_request_id(), read_ranks(ranks, self.world_size))
        return self._control.ask(request, CellInterruptSent, timeout_s=ANSWER_TIMEOUT_S)[0].ranks

    # --- objects ---

    def push(self, objects: Mapping[str, object], ranks: Ranks = None) -> None:
        """Put objects into the ranks' namespaces under their names.

        Raises TransferError naming the object and the rank that could not take it.
        """
        self._check_open()
        wrong = [name for name in objects if not str(name).isidentifier()]
        if wrong:
            raise UsageError(f"{wrong[0]!r} is not a name that Python can use.")
        packed = [pack(name, value) for name, value in objects.items()]
        request = PushObjects(
            self._cells.new_request_id(),
            tuple(objects),
            tuple(len(frames) for frames in packed),
            read_ranks(ranks, self.world_size),
        )
        buffers = [frame for frames in packed for frame in frames]
        answer, _ = self._cells.ask(request, ObjectsPushed, buffers)
        raise_problems(answer.problems)

    def pull(self, name: str, ranks: Ranks = None) -> dict[int, object]:
        """Fetch one name from the ranks: rank -> object.

        Raises TransferError naming the rank that has no such name or cannot send it.
        """
        self._check_open()
        request = PullObject(self._cells.new_request_id(), name, read_ranks(ranks, self.world_size))
        answer, frames = self._cells.ask(request, ObjectPulled)
        raise_problems(answer.problems)
        pieces = split_frames(frames, answer.frame_counts)
        return {rank: unpack(name, piece) for rank, piece in zip(answer.ranks, pieces, strict=True)}

    def sync(self, paths: Paths, reload: bool = False, *, force: bool = False) -> SyncResult:
        """Copy code to every host and make it importable there: see `sync_code`.

        With `reload` ranks then load modules anew whose source has changed, once they are idle:
        `result.reload` is what came of that cell. `force` lifts the limits.
        """
        self._check_open()
        with contextlib.closing(Line(self._context, self._connection)) as line:
            result = sync_code(line, self._connection.hosts, paths, is_forced=force)
        return replace(result, reload=self.run(RELOAD_CELL)) if reload else result

    # --- looking ---

    def status(self) -> ClusterStatus:
        """Tell how the cluster is; `str()` of it is a table."""
        return ClusterStatus(self.topology())

    def topology(self) -> Topology:
        """Describe hosts and ranks at this moment; state `gone` when nobody answers."""
        if not self._is_open:
            return Topology(cluster=self.name, state="stopped")
        try:
            request = WatchTopology(self._control.new_request_id())
            return self._control.ask(request, TopologyChanged, timeout_s=ANSWER_TIMEOUT_S)[
                0
            ].topology
        except ClusterGone:
            return Topology(cluster=self.name, state="gone")

    def watch_topology(self, callback: Subscriber, interval_s: float = 0.25) -> Callable[[], None]:
        """Call back with the topology every `interval_s`, on a background thread.

        The last call has the state `stopped` or `gone`. Gives a function that ends it.
        """
        return self._watch.subscribe(callback, interval_s)

    # --- inside ---

    def _await_ready(self, on_progress: Callable[[StartProgress], None] | None) -> None:
        def pass_on(message: ToClient) -> None:
            if isinstance(message, StartProgress) and on_progress is not None:
                on_progress(message)

        request = AwaitReady(self._control.new_request_id())
        ready, _ = self._control.ask(request, ClusterReady, on_other=pass_on)
        self.log_dirs = dict(ready.log_dirs)
        self.notes = ready.notes
        self._world_size = ready.world_size
        self._watch.start()

    def _wait_for_end(self) -> None:
        """Wait until the coordinator's process is gone: only then nothing of ours is left."""
        if self._process is not None:
            self._process.wait(STOP_TIMEOUT_S)
        else:
            self._control.wait_for_end(STOP_TIMEOUT_S)

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClusterGone(self.name, "it was stopped, or this object was detached from it")
