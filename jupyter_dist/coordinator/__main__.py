"""One coordinator's whole life: open the house, serve, close it.

    python -P -m jupyter_dist.coordinator [HOST START_METHOD]

The agent of HOST, a name of this machine, is started before anything else, since all its ranks wait
for that: so the imports at the top are those without which it cannot be started.
The order comes as one JSON line on stdin; JSON lines on stdout tell what is being done, and the
last of them how it ended. After that the coordinator is on its own and outlives its starter.
"""

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from jupyter_dist.launch.own_agent import EarlyAgent
from jupyter_dist.launch.processes.loading import loading
from jupyter_dist.launch.processes.private_dir import make_private_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_dist.coordinator.agents.arrivals import Arrivals
    from jupyter_dist.launch.launcher import Launcher
    from jupyter_dist.model.spec.cluster_spec import ClusterSpec


class _Wish:
    """That the coordinator shall end, as SIGTERM says; heeded where nothing is half made.

    An exception in the middle of making a socket would leave one behind for whose end libzmq
    waits for ever.
    """

    def __init__(self) -> None:
        self._is_there = False
        self._fulfil: Callable[[], None] | None = None
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, *_: object) -> None:
        self._is_there = True
        if self._fulfil is not None:
            self._fulfil()

    def fulfil_by(self, call: "Callable[[], None]") -> None:
        """Have this called with the signal from now on; at once if it has come already."""
        self._fulfil = call
        if self._is_there:
            call()

    def heed(self) -> None:
        """Raise SystemExit when someone wants the end."""
        if self._is_there:
            sys.exit(1)


def main() -> None:
    """Coordinate one cluster from its start to its end."""
    wish = _Wish()
    os.umask(0o077)
    state_dir = make_private_dir()
    try:
        early = None
        with contextlib.suppress(OSError):  # it is tried once more, and told then
            early = EarlyAgent(str(state_dir), *sys.argv[1:]) if sys.argv[1:] else None
        _live(state_dir, early, wish)
    finally:
        import shutil

        shutil.rmtree(state_dir, ignore_errors=True)


def _live(state_dir: "Path", early: EarlyAgent | None, wish: _Wish) -> None:
    with loading():
        import faulthandler

        import msgspec

        from jupyter_dist.launch.files.connection_file import StartReport
        from jupyter_dist.launch.files.reserved_name import remove_reservation
        from jupyter_dist.launch.processes.open_files import allow_files_of_the_coordinator
        from jupyter_dist.launch.processes.starter import redirect_output, tell_starter
        from jupyter_dist.model.spec.cluster_spec import ClusterSpec

    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=ClusterSpec)
    allow_files_of_the_coordinator(spec)
    log_path = state_dir / "coordinator.log"
    with log_path.open("ab", buffering=0) as log:
        redirect_output(log)
        if sys.platform != "win32":
            faulthandler.register(signal.SIGUSR1)  # where a start that takes too long is
        tell_starter(StartReport(stage="starting its agents", log_path=str(log_path)))
        try:
            _coordinate(spec, _arrivals(spec, state_dir, early), log_path, wish)
        finally:
            remove_reservation(spec.name)


def _coordinate(spec: "ClusterSpec", arrivals: "Arrivals", log_path: "Path", wish: _Wish) -> None:
    from jupyter_dist.errors import ClusterExists, DistError
    from jupyter_dist.launch.files.connection_file import StartReport
    from jupyter_dist.launch.processes.open_files import name_limit
    from jupyter_dist.launch.processes.starter import tell_starter

    abandon = arrivals.abandon
    try:
        arrivals.start(spec.hosts)  # before we import what we need ourselves: theirs takes longest
        tell_starter(StartReport(stage="loading what it needs", log_path=str(log_path)))
        with loading():
            from jupyter_dist.coordinator.agents.connection_limits import load_grpc_quietly

            load_grpc_quietly()
            from jupyter_dist.coordinator.server import CoordinatorServer

        wish.heed()
        tell_starter(StartReport(stage="opening its ports and files", log_path=str(log_path)))
        server = CoordinatorServer(spec, arrivals, log_path)
        abandon = server.abandon
        report = StartReport(server.open())
        wish.fulfil_by(server.stop)
    except (OSError, DistError) as error:
        limit = name_limit(getattr(error, "errno", None))
        _give_up(abandon, f"{error}{limit}", is_name_taken=isinstance(error, ClusterExists))
        return
    except BaseException as error:
        limit = name_limit(getattr(error, "errno", None))  # also of an error of ZeroMQ
        _give_up(abandon, f"{type(error).__name__}: {error}{limit}")
        raise
    tell_starter(report)
    try:
        server.serve()
    finally:
        server.close()


def _arrivals(spec: "ClusterSpec", log_dir: "Path", early: EarlyAgent | None) -> "Arrivals":
    """Return what will start the agents of this cluster; nothing else is loaded for it."""
    from jupyter_dist.coordinator.agents.arrivals import Arrivals
    from jupyter_dist.launch.local import LocalLauncher

    job = None
    if spec.batch is not None:
        from jupyter_dist.coordinator.agents.cluster_job import make_job_watch

        job = make_job_watch(spec, log_dir)
    local = LocalLauncher(log_dir, spec.start_method, early)
    launchers: dict[str, Launcher] = {"local": local, "auto": local}
    if any(host.launcher == "ssh" for host in spec.hosts):
        launchers["ssh"] = _ssh_launcher(spec, log_dir)
    return Arrivals(launchers, log_dir, job)


def _ssh_launcher(spec: "ClusterSpec", log_dir: "Path") -> "Launcher":
    from pathlib import Path

    from jupyter_dist.launch.ssh.ssh_launcher import SshLauncher
    from jupyter_dist.version import WIRE, __version__

    return SshLauncher(
        wire=WIRE,
        version=__version__,
        start_method=spec.start_method,
        log_dir=log_dir,
        timeout_s=spec.timeout_s,
        install=spec.install,
        wheelhouse=Path(spec.wheelhouse) if spec.wheelhouse else None,
    )


def _give_up(abandon: "Callable[[], None]", problem: str, *, is_name_taken: bool = False) -> None:
    """Report why there is no cluster, and clean up undisturbed.

    The starter answers the report with SIGTERM; raised in the middle of closing, it would leave a
    socket open for which libzmq then waits for ever.
    """
    from jupyter_dist.launch.files.connection_file import StartReport
    from jupyter_dist.launch.processes.starter import tell_starter

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell_starter(StartReport(problem=problem, is_name_taken=is_name_taken))
    abandon()


if __name__ == "__main__":
    main()
