"""The public face: start a cluster, run cells on its ranks, move objects, stop it."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from jupyter_dist.cluster.at_exit import detach_at_exit
from jupyter_dist.cluster.coordinator_process import CoordinatorProcess
from jupyter_dist.cluster.session import Session
from jupyter_dist.cluster.specification import StrPath, Wishes, specify
from jupyter_dist.errors import ClusterExists, ClusterGone, NoCluster, StartFailed
from jupyter_dist.launch.connection_file import (
    ConnectionInfo,
    connection_path,
    read_connection,
    running_clusters,
)
from jupyter_dist.model.spec import ClusterSpec, HostSpec
from jupyter_dist.protocol.messages import (
    AwaitReady,
    ClusterReady,
    ClusterStopping,
    StartProgress,
    StopCluster,
    ToClient,
)

STOP_TIMEOUT_S = 15.0


class Cluster(Session):
    """A running cluster of engines, one per rank; use it as a context manager, or stop it."""

    def __init__(
        self, connection: ConnectionInfo, process: CoordinatorProcess | None = None
    ) -> None:
        super().__init__(connection)
        self._process = process
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
        oversubscribe: bool | None = None,
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
        wishes |= {"tunnel": tunnel, "oversubscribe": oversubscribe}
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
