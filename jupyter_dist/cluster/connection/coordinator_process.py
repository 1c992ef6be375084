"""Start a coordinator that outlives us, or leave nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.cluster.connection.no_answer import explain_silence
from jupyter_dist.cluster.spec.checks import check_system, reserve_free_name
from jupyter_dist.errors import ClusterExists, StartFailed
from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    StartReport,
    check_name_is_free,
)
from jupyter_dist.launch.local import coordinator_command
from jupyter_dist.launch.processes.open_files import check_open_files, name_limit
from jupyter_dist.launch.processes.process_life import own_session
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.model.spec.sendable import check_sendable
from jupyter_dist.model.spec.shutdown_time import JOB_END_S, longest_end_s
from jupyter_dist.protocol.messages import StartProgress

if TYPE_CHECKING:
    from jupyter_dist.launch.proxy.conversation import ProxyOrder

_PROXY = (sys.executable, "-P", "-m", "jupyter_dist.launch.proxy")
_SLICE_S = 0.1
_END_TIMEOUT_S = 8.0
_CANCEL_S = JOB_END_S + 3.0
"""A start in a job that takes too long says so itself, once the job is cancelled."""
_MOST_WORDS = 2000
"""Characters of what it has said instead of a report."""


class CoordinatorProcess:
    """A coordinator that we started."""

    def __init__(self, spec: ClusterSpec, order: "ProxyOrder | None" = None) -> None:
        """Start it here, or with a ProxyOrder what stands here for one elsewhere.

        It ends with this object as long as it has no order.
        """
        self._spec, self._order = spec, order
        command = _PROXY if order is not None else coordinator_command(spec)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                **own_session(),
            )
        except OSError as error:
            raise StartFailed(
                f"cluster {spec.name!r} did not start: its coordinator, a process of this Python "
                f"({sys.executable}), could not be started: {error}{name_limit(error.errno)}"
            ) from error
        self._stage = StartReport()
        self._words = b""
        """What it has written that is no report."""
        self._said: SimpleQueue[bytes] = SimpleQueue()
        """Its lines; the last one is empty."""

    def send_order(self) -> None:
        """Tell it what to start: from now on it goes on until `end`."""
        assert self._process.stdin is not None
        # One that ends at once says why; it need not read for that.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(msgspec.json.encode(self._order or self._spec) + b"\n")
        # Not every system can wait for a pipe with a deadline.
        threading.Thread(target=self._listen, name="coordinator-start", daemon=True).start()

    def wait_for_report(
        self, timeout_s: float, on_progress: Callable[[StartProgress], None] | None = None
    ) -> ConnectionInfo:
        """Wait until it says how the start ended; raises StartFailed or ClusterExists.

        `on_progress` is told what it does meanwhile.
        """
        try:
            report = self._read_report(timeout_s, on_progress)
        except TimeoutError:
            why = explain_silence(self._process.pid, self._stage, self._spec.timeout_s)
            raise self._failure(why) from None
        if report is None:
            self._process.wait()  # it has closed its end: it is ending
            said = (self._words + self._read_errors()).decode(errors="replace").strip()
            status = self._process.returncode
            raise self._failure(said[-_MOST_WORDS:] or _name_end(status, self._stage.stage))
        if report.connection is None:
            self.end()
            if report.is_name_taken:
                raise ClusterExists(self._spec.name)
            raise self._failure(report.problem)
        self._let_go()
        return report.connection

    def _failure(self, why: str) -> StartFailed:
        self.end()
        return StartFailed(f"cluster {self._spec.name!r} did not start: {why}")

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; True when it has ended."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """Have it clean up and end; kill it when it does not (its agents follow)."""
        if self._process.poll() is None:
            is_far = self._order is not None and self._order.remote.spec is not None
            self._process.send_signal(signal.SIGINT if is_far else signal.SIGTERM)
            # Schedulers end a job in their own time, and ssh takes some.
            is_slow = is_far or self._spec.batch is not None
            if not self.wait(longest_end_s(self._spec.hosts) if is_slow else _END_TIMEOUT_S):
                self._process.kill()
                self._process.wait()
        self._close_pipes()

    def _read_report(
        self, timeout_s: float, on_progress: Callable[[StartProgress], None] | None
    ) -> StartReport | None:
        """Return its last report, None when it ends without; raises TimeoutError."""
        deadline_s = monotonic() + timeout_s
        while monotonic() < deadline_s:
            try:
                line = self._said.get(timeout=_SLICE_S)
            except Empty:
                continue
            if not line:
                return None
            report = self._take(line)
            if not report.stage:
                return report
            if on_progress is not None:
                on_progress(StartProgress("", report.stage, 0, self._spec.world_size))
        raise TimeoutError

    def _listen(self) -> None:
        """Pass on each line that it writes until it closes its end, as it does after its report."""
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for line in pipe:
                self._said.put(line)
        self._said.put(b"")

    def _take(self, line: bytes) -> StartReport:
        """Read one line; what is no report (a module that prints while it is loaded) is kept."""
        try:
            report = msgspec.json.decode(line, type=StartReport)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._words += line
            return self._stage if self._stage.stage else StartReport(stage="?")
        if report.stage:
            self._stage = report
        return report

    def _read_errors(self) -> bytes:
        """Return what it has written to stderr so far; processes that it left may hold that."""
        assert self._process.stderr is not None
        if sys.platform != "win32":
            os.set_blocking(self._process.stderr.fileno(), False)
        return self._process.stderr.read() or b""

    def _let_go(self) -> None:
        """Close the pipes, and reap it when it ends, which may be in hours."""
        self._close_pipes()
        threading.Thread(target=self._process.wait, name="coordinator-reaper", daemon=True).start()

    def _close_pipes(self) -> None:
        if self._process.stderr is not None:
            self._process.stderr.close()


def start_coordinator(
    spec: ClusterSpec,
    begun: list[CoordinatorProcess],
    is_named_by_us: bool,
    on_progress: Callable[[StartProgress], None] | None,
) -> tuple[CoordinatorProcess, ConnectionInfo]:
    """Start a coordinator that others can connect to; raises StartFailed or ClusterExists.

    What is started is appended to `begun` at once: an interrupt may come at any moment until the
    caller has what is returned, who ends it then. `on_progress` is told what a job waits for that
    has the coordinator in it.
    """
    folder = tempfile.gettempdir()
    parts = {name: getattr(spec, name) for name in spec.__struct_fields__}
    check_sendable({**parts, "the folder of temporary files (TMPDIR)": folder})
    check_system(spec)
    if spec.coordinator is None:
        check_open_files(spec)
    if not spec.is_coordinator_in_job:
        on_progress = None
    if not is_named_by_us:
        return _start_once(spec, begun, spec.timeout_s, on_progress)
    deadline_s = monotonic() + spec.timeout_s
    taken: set[str] = set()
    while True:
        with contextlib.closing(reserve_free_name(taken)) as reserved:
            try:
                named = msgspec.structs.replace(spec, name=reserved.name)
                return _start_once(named, begun, deadline_s - monotonic(), on_progress)
            except ClusterExists:
                if spec.coordinator is not None:
                    taken.add(reserved.name)  # there, where we see no files
                # A start that names its cluster so needs no reservation.
                if monotonic() > deadline_s:
                    raise


def _start_once(
    spec: ClusterSpec,
    begun: list[CoordinatorProcess],
    timeout_s: float,
    on_progress: Callable[[StartProgress], None] | None,
) -> tuple[CoordinatorProcess, ConnectionInfo]:
    check_name_is_free(spec.name)
    order = None
    if spec.coordinator is not None:
        from jupyter_dist.launch.proxy.conversation import ProxyOrder, RemoteOrder

        order = ProxyOrder(spec.coordinator, RemoteOrder(spec.name, spec))
    process = CoordinatorProcess(spec, order)
    begun.append(process)
    process.send_order()
    if spec.is_coordinator_in_job:
        timeout_s += _CANCEL_S
    try:
        return process, process.wait_for_report(timeout_s, on_progress)
    except BaseException:
        process.end()
        raise


def _name_end(status: int, stage: str) -> str:
    """Return how a coordinator has ended that did not say why."""
    how = f"with code {status}"
    if status < 0:
        with contextlib.suppress(ValueError):
            how = f"by {signal.Signals(-status).name}"
    when = f" while it was {stage}" if stage else ""
    return (
        f"its coordinator has ended {how}{when}, without a word. Was it killed, or is there no "
        "memory left (dmesg tells)? Start it again."
    )
