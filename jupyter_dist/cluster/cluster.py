"""The public face: start a cluster, run cells on its ranks, move objects, stop it."""

import atexit
import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import WeakSet

from msgspec.structs import replace

from jupyter_dist.cluster.asking.front_end import find_obstacle, is_person_there
from jupyter_dist.cluster.checkpoints import finish_saving
from jupyter_dist.cluster.connection.coordinator_process import (
    CoordinatorProcess,
    start_coordinator,
)
from jupyter_dist.cluster.connection.no_answer import OpenLog, still_runs
from jupyter_dist.cluster.connection.roles import leave_place, take_part
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.session import Session
from jupyter_dist.cluster.spec.specification import name_in, specify
from jupyter_dist.cluster.spec.typed_options import check_options
from jupyter_dist.cluster.spmd import CellWatcher, Gathering, gather
from jupyter_dist.control.sockets import end_unused_context
from jupyter_dist.errors import ClusterGone, DistError, NoCluster, StartFailed, UsageError
from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    remove_files_of_killed,
    running_clusters,
)
from jupyter_dist.launch.for_coordinator import check_launcher
from jupyter_dist.launch.processes.open_files import check_room
from jupyter_dist.model.spec.cluster_spec import KEEP_S, ClusterSpec, HostSpec
from jupyter_dist.options.start_options import AllOptions, StartOptions
from jupyter_dist.protocol.messages import (
    ClusterStopping,
    FollowCell,
    KeptCell,
    NoteAuto,
    StartProgress,
    StopCluster,
)

if TYPE_CHECKING:
    from jupyter_dist.launch.workers.agent_starts import Submit
    from jupyter_dist.launch.workers.placement import Worker

BREAK_S = 60.0
"""So long a cluster whose program is on another machine than its coordinator outlives a silence."""
_LAST_MOMENTS_S = 3.0
"""Of a coordinator that has closed its connections, or is known not to answer."""


@check_options
class Cluster(Session):
    """A running cluster of engines, one per rank; use it as a context manager, or stop it.

    One that is dropped is detached; a copy by fork says that it cannot be used there.
    """

    def __init__(
        self, connection: ConnectionInfo, process: CoordinatorProcess | None = None
    ) -> None:
        super().__init__(connection)
        self._process = process
        self._role = "own"
        self._is_tied = False
        """It is to end with this process, unless we leave before."""
        self.owner = ""
        """The owner of the cluster when this client connected; empty: it had none."""
        _connected().add(self)

    @property
    def is_observer(self) -> bool:
        """It only looks on, beside its owner: see `attach`."""
        return self._role == "observe"

    def note_auto(self, is_on: bool) -> None:
        """Tell pages that show this cluster whether cells run on it without `%%spmd`."""
        self._check_open()
        with self._control.lock:
            self._control.send(NoteAuto(self._control.new_request_id(), is_on))

    # --- beginning and end ---

    @classmethod
    def start(
        cls,
        hosts: str | Sequence[HostSpec] | None = None,
        *,
        on_progress: Callable[[StartProgress], None] | None = None,
        **options: Unpack[AllOptions],
    ) -> Self:
        """Start engines on the hosts (none named: four on this machine), until all are ready.

        One of `hosts`, `hostfile` (a path) and `spec` (the path of a TOML file, or a ClusterSpec)
        names the hosts; every other option, where it is given, wins over what the spec says. With
        a batch system as `launcher`, the hosts are the nodes of its job.
        Raise UsageError (nothing was started) or StartFailed (everything was cleaned up).
        The cluster lives on after this process, for `keep_s` seconds without a client or a cell:
        15 minutes if a person has started it, at a prompt or in a notebook; else it ends with this
        process, unless `detach` has left it.
        """
        check_room(StartFailed)
        is_named_by_us = not (options.get("name") or name_in(options.get("spec")))
        spec = specify(hosts, **options)
        if spec.coordinator is None or spec.is_coordinator_in_job:
            check_launcher(spec.batch)
        return cls._begin(spec, is_named_by_us, on_progress)

    @classmethod
    def from_workers(
        cls,
        submit: "Submit",
        workers: "Iterable[Worker]",
        *,
        slots: int = 0,
        on_progress: Callable[[StartProgress], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Self:
        """Start engines on the nodes where someone has workers that can run functions.

        `submit(worker, function)` has one of `workers` call a function without arguments, in the
        same process each time, and returns a future of its result. One worker of each host starts
        our agent there, which ends with our cluster and not with theirs; `slots` are the ranks of
        each host (0: as many as it has workers). Workers are busy for some seconds, and free then.
        Options and errors as in `start`; `timeout_s` is 60.
        """
        from jupyter_dist.cluster.from_workers import start_on_workers

        with start_on_workers(submit, workers, slots, on_progress, options) as start:
            spec = start.begin(slots)
            return cls._begin(spec, not options.get("name"), on_progress, start.bring)

    @classmethod
    def from_ipyparallel(
        cls,
        client: Any,
        *,
        slots: int = 0,
        on_progress: Callable[[StartProgress], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Self:
        """Start engines on the hosts where the engines of an ipyparallel cluster run.

        `client` is its ipyparallel.Client; all else as in `from_workers`.
        """
        from jupyter_dist.cluster.from_workers import start_on_ipyparallel

        with start_on_ipyparallel(client, slots, on_progress, options) as start:
            spec = start.begin(slots)
            return cls._begin(spec, not options.get("name"), on_progress, start.bring)

    @classmethod
    def _begin(
        cls,
        spec: ClusterSpec,
        is_named_by_us: bool,
        on_progress: Callable[[StartProgress], None] | None,
        bring_agents: Callable[[str], None] | None = None,
    ) -> Self:
        """Start what is specified; `bring_agents` is called with the name when it waits for them.

        Whatever goes wrong, everything is cleaned up.
        """
        is_tied = spec.keep_s is None and not is_person_there()
        if spec.keep_s is None:
            spec = replace(spec, keep_s=_usual_keep_s(spec, is_tied=is_tied))
        begun: list[CoordinatorProcess] = []
        cluster = log = None
        try:
            process, info = start_coordinator(spec, begun, is_named_by_us, on_progress)
            log = OpenLog(info)
            cluster = cls(info, process)
            cluster._take_part("own")
            if bring_agents is not None:
                bring_agents(info.name)
            cluster._await_ready(on_progress)
            cluster._is_tied = is_tied
        except BaseException as error:
            why = ""
            if log is not None and isinstance(error, ClusterGone):
                why = log.explain_loss(error.reason)
            if cluster is not None:
                cluster.detach()
            for process in begun:
                process.end()
            if why:
                raise StartFailed(f"cluster {info.name!r} did not start: {why}") from error
            raise
        finally:
            if log is not None:
                log.close()
        return cluster

    @classmethod
    def attach(
        cls,
        name: str | None = None,
        *,
        watch: bool = False,
        take_over: bool = False,
        coordinator: str | None = None,
        ssh: str | Sequence[str] | None = None,
        python: str | None = None,
    ) -> Self:
        """Connect to a running cluster: the one with this name, or the only one.

        With `coordinator` it is looked for on that machine, by one ssh connection, which clients
        on this one share from then on; `ssh` and `python` say how, as in `start`. Raises
        StartFailed where that does not get there.
        One process owns a cluster; with `watch` we only observe, beside it, and with `take_over`
        it looks on from now on. Raises NoCluster naming those that run, and ClusterInUse when
        another process that lives owns it.
        """
        if watch and take_over:
            raise UsageError("watch or take_over, not both: who takes over runs cells.")
        role = "observe" if watch else "own"
        if coordinator is not None:
            from jupyter_dist.cluster.connection.remote import reach_cluster

            name = reach_cluster(name, coordinator, ssh, python)
        return cls._connect(name, role, take_over)

    @classmethod
    def visit(cls, name: str | None = None, *, await_ready: bool = True) -> Self:
        """Connect for one command, beside its owner; else as `attach`.

        Without `await_ready` one that is still starting can be seen, and stopped.
        """
        return cls._connect(name, "visit", await_ready=await_ready)

    @classmethod
    def _connect(
        cls, name: str | None, role: str, is_taking_over: bool = False, *, await_ready: bool = True
    ) -> Self:
        running = {info.name: info for info in running_clusters()}
        if name is None and len(running) == 1:
            name = next(iter(running))
        if name is None or name not in running:
            raise NoCluster(name, sorted(running))
        cluster = cls(running[name])
        try:
            cluster._take_part(role, is_taking_over)
            if await_ready:
                cluster._await_ready(None)
        except BaseException:
            cluster.detach()
            raise
        return cluster

    @staticmethod
    def running() -> list[str]:
        """Names of this user's clusters that run on this machine."""
        return [info.name for info in running_clusters()]

    def await_ready(self) -> None:
        """Wait until every rank is ready, after a visit that has not; raises StartFailed."""
        self._check_open()
        self._await_ready(None)

    def stop(self) -> None:
        """End every process of the cluster and remove every file; harmless when it is gone.

        Raises ClusterInUse when another process owns it, and DistError when its coordinator does
        not end; then we are still connected. Warns of a batch job that could not be cancelled.
        First it waits for saves behind cells (`checkpoint(wait=False)`), and warns if one fails.
        """
        if not self._is_open:
            return
        self._check_open()
        lost = "" if self._role == "observe" else finish_saving(self)
        begin_s, patience_s, left, was_gone = monotonic(), self.longest_end_s, "", False
        try:
            request = StopCluster(self._control.new_request_id())
            left = self._control.ask(request, ClusterStopping, timeout_s=patience_s)[0].left
        except ClusterGone as gone:
            patience_s, was_gone = _LAST_MOMENTS_S, True
            left = str(gone) if gone.may_go_on else ""
        # The cluster has left nothing behind only once the coordinator's process has ended.
        has_ended = self._control.wait_for_end if self._process is None else self._process.wait
        if not has_ended(patience_s):
            raise still_runs(self._connection, monotonic() - begin_s)
        self.detach()
        if was_gone:
            remove_files_of_killed()
        for problem in filter(None, (lost, left)):
            warnings.warn(problem, stacklevel=2)

    def detach(self) -> None:
        """Close our connections; the cluster goes on, and its owner's place is free.

        One that would end with this process lives for 15 minutes without a client from now on.
        """
        if not self._is_open or self._pid != os.getpid():
            return  # in a copy by fork: the connections are the parent's
        if self._role == "own" and self.is_running:
            leave_place(self._control, keeps_cluster=self._is_tied)
        self._is_open = False
        self._watch.close()
        self._close_lines()
        end_unused_context()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _stack: object) -> None:
        if self._role == "observe" or self._pid != os.getpid():
            self.detach()
            return
        try:
            self.stop()
        except DistError:
            self.detach()
            if error is None:  # what went wrong inside matters more
                raise

    def __repr__(self) -> str:
        state = "running" if self.is_running else "gone"
        return f"<Cluster {self.name!r}: {self.world_size} ranks, {state}>"

    # --- what cells have said ---

    def follow(
        self,
        watcher: CellWatcher | None = None,
        on_cell: Callable[[KeptCell], None] | None = None,
        *,
        keeps_output: bool = True,
    ) -> SpmdResult | None:
        """Gather the running cell from its beginning to its end as if we had sent it.

        None when nothing runs; `on_cell` is told which cell it is before the watcher sees
        anything of it. Without `keeps_output` only the watcher sees what ranks say, and the result
        tells how they ended. A first Ctrl-C interrupts the ranks, but only if we may run cells;
        else it ends the looking on, as KeyboardInterrupt.
        """

        def leave() -> None:
            raise KeyboardInterrupt("this client no longer follows the cell; the cell goes on")

        with contextlib.closing(self._new_line()) as line:
            can_answer = not (self.is_observer or find_obstacle())
            request = FollowCell(line.new_request_id(), can_answer)
            gathering = Gathering(
                request, watcher, on_cell, keeps_output=keeps_output, axes=self.axes
            )
            gather(line, gathering, leave if self.is_observer else self.interrupt)
        return gathering.result() if gathering.has_cell else None

    def _take_part(self, role: str, is_taking_over: bool = False) -> None:
        self.owner = take_part(self._control, role, is_taking_over)
        self._role = role
        self._watch.start()  # shows that we are here


def _usual_keep_s(spec: ClusterSpec, *, is_tied: bool) -> float:
    """Return for how long a cluster lives without a client, in seconds.

    From another machine it cannot be told whether a client has ended, or the connection has.
    """
    if is_tied:
        return BREAK_S if spec.coordinator is not None else 0.0
    return KEEP_S


@cache
def _connected() -> WeakSet[Cluster]:
    """Return those that are detached before the interpreter ends and tears down libzmq.

    It is registered with the first one: those who register later, as views, are called before us.
    """
    connected: WeakSet[Cluster] = WeakSet()

    def detach_all() -> None:
        for cluster in list(connected):
            cluster._is_tied = False  # noqa: SLF001  (this process ends)
            cluster.detach()

    atexit.register(detach_all)
    return connected
