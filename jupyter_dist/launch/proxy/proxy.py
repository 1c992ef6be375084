"""Keeps the way to a coordinator on another machine open: dials, and dials again."""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import time

import msgspec

from jupyter_dist.errors import ClusterExists, DistError, StartFailed
from jupyter_dist.launch.files.connection_file import ConnectionInfo, StartReport
from jupyter_dist.launch.processes.private_dir import this_machine
from jupyter_dist.launch.proxy.conversation import END, ProxyOrder, RemoteOrder
from jupyter_dist.launch.proxy.forwarding import explain_no_way
from jupyter_dist.launch.proxy.job import CoordinatorJob
from jupyter_dist.launch.proxy.last_word import last_word_path
from jupyter_dist.launch.proxy.outage import Outage, outage_path, tell_outage
from jupyter_dist.launch.proxy.published import Published
from jupyter_dist.launch.proxy.remote_session import LoginRefused, RemoteSession
from jupyter_dist.model.spec.cluster_spec import JOIN

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
"""Between two attempts to dial: at first, and after many."""
_REFUSED_PAUSE_S = 300.0
_AFTER_REFUSAL = (
    f"The next attempt is {_REFUSED_PAUSE_S / 60:.0f} minutes later, as many machines lock out "
    "whom they refuse often"
)
_FORWARDING = (
    # A person's own forwardings may fail, as where another ssh has their ports.
    *("-o", "ExitOnForwardFailure=no", "-o", "ClearAllForwardings=no"),
    *("-o", "StreamLocalBindUnlink=yes"),
)


class ClusterEnded(StartFailed):
    """There is no such coordinator any more, as its own machine says."""


class Proxy:
    """One coordinator's stand-in on this machine; its signals call `end` and `leave`."""

    def __init__(self, order: ProxyOrder, folder: Path, log_path: Path) -> None:
        self._host, self._remote = order.host, order.remote
        self._folder, self._log_path = folder, log_path
        self._socket = folder / "clients"
        self._over = threading.Event()
        self._is_cut = False
        self._session: RemoteSession | None = None
        self._far: ConnectionInfo | None = None
        """The cluster as it is found on its own machine."""
        self._published: Published | None = None
        self._job: CoordinatorJob | None = None
        self._is_kept = self._is_let_go = False
        if order.host.launcher == JOIN and order.remote.spec is not None:
            self._job = CoordinatorJob(order.remote.spec, folder, self._end_with_job)

    def open(self, on_stage: Callable[[StartReport], None]) -> ConnectionInfo:
        """Start or find the coordinator, and return how clients of this machine reach it.

        Raise StartFailed and ClusterExists; what was started has ended then.
        """
        if self._job is not None:
            return self._open_in_job(self._job, on_stage)
        with contextlib.ExitStack() as starting:
            if self._remote.spec is not None:
                start = self._dial(self._remote)
                starting.callback(start.close)
                self._far = self._take(start, start.read_report(on_stage))
            on_stage(StartReport(stage=f"opening its connection to {self._host.name}"))
            self._reach()
            info = self._publish()
            if self._remote.spec is not None:
                self._keep(start)
        return info

    def _open_in_job(
        self, job: CoordinatorJob, on_stage: Callable[[StartReport], None]
    ) -> ConnectionInfo:
        try:
            self._host, self._far = job.start(self._host, on_stage, self._over)
            self._remote = RemoteOrder(self._remote.name, runtime_dir=job.runtime_dir)
            on_stage(StartReport(stage=f"opening its connection to {self._host.name}"))
            try:
                self._reach()
            except StartFailed as problem:
                raise StartFailed(
                    f"{problem} The coordinator is on that node of {job.label}, and ssh has to get "
                    "there from here: --ssh says how. Where it cannot, leave --coordinator out."
                ) from problem
            info = self._publish()
        except BaseException as problem:
            left = job.end(is_failed=True)
            if left and isinstance(problem, (OSError, DistError)):
                raise StartFailed(f"{problem} {left}") from problem
            raise
        self._is_kept = True
        return info

    def _keep(self, start: RemoteSession) -> None:
        """Have what was started live on. Raise StartFailed, and have it end, unless it will."""
        try:
            start.keep()
        except StartFailed:
            self.end()  # only the answer may have been lost
            raise

    def serve(self) -> None:
        """Stay until the coordinator has ended, or one of `end` and `leave` was called."""
        while self._session is not None and not self._over.is_set():
            self._session.wait()
            self._session.close()
            if self._session.has_ended or self._over.is_set():
                return
            try:
                self._reach_again(self._session.explain())
            except ClusterEnded:
                return

    def close(self) -> None:
        """End the connection and a job whose coordinator has ended; remove what clients find."""
        if self._job is not None and self._is_kept:
            if self._is_let_go:
                self._job.let_go()
            elif words := self._job.end():
                last_word_path(self._log_path).write_text(words, encoding="utf-8")
        if self._published is not None:
            self._published.close()
        if self._session is not None:
            self._session.close()

    def end(self) -> None:
        """Have the coordinator end, as the handler of a signal does; `serve` returns then."""
        if self._session is not None:
            self._session.say(END)
        if self._is_cut or (self._job is not None and not self._is_kept):
            self._over.set()

    def leave(self) -> None:
        """Let go of a coordinator that lives on, as the handler of a signal does."""
        self._is_let_go = True
        self._end_with_job()

    def _end_with_job(self) -> None:
        """Have `serve` return, as the thread that watches the job does at its end."""
        self._over.set()
        if self._session is not None:
            self._session.terminate()

    def _dial(self, order: RemoteOrder, *options: str) -> RemoteSession:
        self._session = RemoteSession(self._host, order, self._folder / "ssh.log", options)
        return self._session

    def _take(self, session: RemoteSession, report: StartReport) -> ConnectionInfo:
        if report.connection is not None:
            return report.connection
        session.wait()  # what it has to clean up there
        if report.is_name_taken:
            raise ClusterExists(self._remote.name)
        kind = ClusterEnded if session.has_ended else StartFailed
        raise kind(f"{self._host.name}: {report.problem}")

    def _reach(self) -> None:
        """Connect so that clients reach the coordinator. Raise StartFailed, and ClusterEnded."""
        order = RemoteOrder(self._remote.name, runtime_dir=self._remote.runtime_dir)
        if self._far is None:
            with contextlib.closing(self._dial(order)) as first:
                self._far = self._take(first, first.read_report())
        _, _, port = self._far.clients_address.rpartition(":")
        session = self._dial(order, *_FORWARDING, "-L", f"{self._socket}:127.0.0.1:{port}")
        with contextlib.ExitStack() as failing:
            failing.callback(session.close)
            found = self._take(session, session.read_report())
            if found.credentials != self._far.credentials:
                raise ClusterEnded(f"{self._host.name}: another cluster has its name now.")
            if problem := explain_no_way(self._socket, session):
                raise StartFailed(f"{self._host.name}: {problem}")
            failing.pop_all()

    def _publish(self) -> ConnectionInfo:
        assert self._far is not None
        info = msgspec.structs.replace(
            self._far,
            clients_address=f"ipc://{self._socket}",
            clients_path="",  # of that machine
            coordinator_pid=os.getpid(),
            log_path=str(self._log_path),
            machine=this_machine(),
            coordinator_host=self._host.name,
        )
        last_word_path(self._log_path).touch()
        self._published = Published(info)
        return info

    def _reach_again(self, why: str) -> None:
        """Dial until it works, or this process is to end. Raise ClusterEnded."""
        since_s, pause_s, self._is_cut = time(), _FIRST_PAUSE_S, True
        while True:
            with contextlib.suppress(OSError):  # no reason to leave clients alone
                tell_outage(self._log_path, Outage(since_s, why))
            print(f"{self._host.name} is out of reach: {why}", flush=True)  # noqa: T201  (its log)
            if self._over.wait(pause_s):
                return
            try:
                self._reach()
            except ClusterEnded:
                raise
            except LoginRefused as problem:
                why, pause_s = f"{problem} {_AFTER_REFUSAL}", _REFUSED_PAUSE_S
            except StartFailed as problem:
                why, pause_s = str(problem), min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                break
        self._is_cut = False
        outage_path(self._log_path).unlink(missing_ok=True)
