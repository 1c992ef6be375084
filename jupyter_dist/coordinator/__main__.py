"""One coordinator's whole life: open the house, serve, close it.

The order comes as one JSON line on stdin; JSON lines on stdout tell what is being done, and the
last of them how it ended. After that the coordinator is on its own and outlives its starter.
"""

import contextlib
import faulthandler
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.connection_limits import load_grpc_quietly
from jupyter_dist.coordinator.agents.job_watch import make_job_watch
from jupyter_dist.errors import ClusterExists, DistError
from jupyter_dist.launch.files.connection_file import StartReport
from jupyter_dist.launch.files.reserved_name import remove_reservation
from jupyter_dist.launch.launcher import Launcher
from jupyter_dist.launch.local import LocalLauncher
from jupyter_dist.launch.processes.open_files import (
    allow_open_files,
    files_of_the_coordinator,
    name_limit,
)
from jupyter_dist.launch.processes.private_dir import make_private_dir
from jupyter_dist.launch.ssh.ssh_launcher import SshLauncher
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.version import WIRE, __version__


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

    def fulfil_by(self, call: Callable[[], None]) -> None:
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
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=ClusterSpec)
    ranks = sum(host.slots for host in spec.hosts)
    allow_open_files(files_of_the_coordinator(ranks, len(spec.hosts)))
    os.umask(0o077)
    _report(StartReport(stage=f"making a private directory in {tempfile.gettempdir()!r}"))
    state_dir = make_private_dir()
    log_path = state_dir / "coordinator.log"
    with log_path.open("ab", buffering=0) as log:
        _redirect(log)
        faulthandler.register(signal.SIGUSR1)  # where a start that takes too long is
        _report(StartReport(stage="starting its agents", log_path=str(log_path)))
        try:
            _coordinate(spec, state_dir, log_path, wish)
        finally:
            shutil.rmtree(state_dir, ignore_errors=True)
            remove_reservation(spec.name)


def _coordinate(spec: ClusterSpec, state_dir: Path, log_path: Path, wish: _Wish) -> None:
    arrivals = _arrivals(spec, state_dir)
    abandon = arrivals.abandon
    try:
        arrivals.start(spec.hosts)  # before we import what we need ourselves: theirs takes longest
        _report(StartReport(stage="loading what it needs", log_path=str(log_path)))
        load_grpc_quietly()
        from jupyter_dist.coordinator.server import CoordinatorServer

        wish.heed()
        _report(StartReport(stage="opening its ports and files", log_path=str(log_path)))
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
    _report(report)
    try:
        server.serve()
    finally:
        server.close()


def _arrivals(spec: ClusterSpec, log_dir: Path) -> Arrivals:
    """Return what will start the agents of this cluster."""
    ssh = SshLauncher(
        wire=WIRE,
        version=__version__,
        start_method=spec.start_method,
        log_dir=log_dir,
        timeout_s=spec.timeout_s,
        install=spec.install,
        wheelhouse=Path(spec.wheelhouse) if spec.wheelhouse else None,
    )
    local = LocalLauncher(log_dir, spec.start_method, os.getpid())
    launchers: dict[str, Launcher] = {"local": local, "auto": local, "ssh": ssh}
    return Arrivals(launchers, log_dir, make_job_watch(spec, log_dir))


def _give_up(abandon: Callable[[], None], problem: str, *, is_name_taken: bool = False) -> None:
    """Report why there is no cluster, and clean up undisturbed.

    The starter answers the report with SIGTERM; raised in the middle of closing, it would leave a
    socket open for which libzmq then waits for ever.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _report(StartReport(problem=problem, is_name_taken=is_name_taken))
    abandon()


_report_descriptor = 1


def _redirect(log: IO[bytes]) -> None:
    """Keep stdout for the report, and send whatever else is printed to the log."""
    global _report_descriptor  # noqa: PLW0603  (one process, one report)
    _report_descriptor = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)


def _report(report: StartReport) -> None:
    """Tell the starter; it may be gone already, which is no reason to end."""
    line = msgspec.json.encode(report) + b"\n"
    with contextlib.suppress(BrokenPipeError):
        while line:
            line = line[os.write(_report_descriptor, line) :]
    if not report.stage:
        os.close(_report_descriptor)


if __name__ == "__main__":
    main()
