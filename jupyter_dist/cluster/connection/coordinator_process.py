"""Start a coordinator that outlives us, or leave nothing behind."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from time import monotonic

import msgspec

from jupyter_dist.cluster.connection.no_answer import explain_silence
from jupyter_dist.cluster.spec.checks import reserve_free_name
from jupyter_dist.errors import ClusterExists, StartFailed
from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    StartReport,
    check_name_is_free,
)
from jupyter_dist.launch.processes.open_files import check_open_files, name_limit
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.model.spec.sendable import check_sendable
from jupyter_dist.model.spec.shutdown_time import longest_end_s

_SLICE_S = 0.1
_END_TIMEOUT_S = 8.0
_MOST_WORDS = 2000
"""Characters of what it has said instead of a report."""


class CoordinatorProcess:
    """A coordinator that we started."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        order = msgspec.json.encode(spec) + b"\n"
        try:
            self._process = subprocess.Popen(
                # -P: a file named like one of our imports in the current directory must not win.
                [sys.executable, "-P", "-m", "jupyter_dist.coordinator"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise StartFailed(
                f"cluster {spec.name!r} did not start: its coordinator, a process of this Python "
                f"({sys.executable}), could not be started: {error}{name_limit(error.errno)}"
            ) from error
        assert self._process.stdin is not None
        # One that ends at once says why; it need not read for that.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(order)
        self._stage = StartReport()
        self._words = b""
        """What it has written that is no report."""

    def wait_for_report(self, timeout_s: float) -> ConnectionInfo:
        """Wait until it says how the start ended; raises StartFailed or ClusterExists."""
        try:
            report = self._read_report(timeout_s)
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
            self._process.send_signal(signal.SIGTERM)
            has_job = self._spec.batch is not None  # schedulers end one in their own time
            if not self.wait(longest_end_s(self._spec.hosts) if has_job else _END_TIMEOUT_S):
                self._process.kill()
                self._process.wait()
        self._close_pipes()

    def _read_report(self, timeout_s: float) -> StartReport | None:
        """Return its last report, None when it ends without; raises TimeoutError."""
        assert self._process.stdout is not None
        deadline_s = monotonic() + timeout_s
        descriptor, text = self._process.stdout.fileno(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while monotonic() < deadline_s:
                if not selector.select(_SLICE_S):
                    continue
                got = os.read(descriptor, 1 << 16)
                *lines, text = (text + got).split(b"\n")
                for line in lines:
                    report = self._take(line)
                    if not report.stage:
                        return report
                if not got:
                    self._words += text
                    return None
        raise TimeoutError

    def _take(self, line: bytes) -> StartReport:
        """Read one line; what is no report (a module that prints while it is loaded) is kept."""
        try:
            report = msgspec.json.decode(line, type=StartReport)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._words += line + b"\n"
            return self._stage if self._stage.stage else StartReport(stage="?")
        if report.stage:
            self._stage = report
        return report

    def _read_errors(self) -> bytes:
        """Return what it has written to stderr so far; processes that it left may hold that."""
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        return self._process.stderr.read() or b""

    def _let_go(self) -> None:
        """Close the pipes, and reap it when it ends, which may be in hours."""
        self._close_pipes()
        threading.Thread(target=self._process.wait, name="coordinator-reaper", daemon=True).start()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def start_coordinator(
    spec: ClusterSpec, *, is_named_by_us: bool
) -> tuple[CoordinatorProcess, ConnectionInfo]:
    """Start a coordinator that others can connect to; raises StartFailed or ClusterExists."""
    folder = tempfile.gettempdir()
    parts = {name: getattr(spec, name) for name in spec.__struct_fields__}
    check_sendable({**parts, "the folder of temporary files (TMPDIR)": folder})
    check_open_files(spec)
    if not is_named_by_us:
        return _start_once(spec, spec.timeout_s)
    deadline_s = monotonic() + spec.timeout_s
    while True:
        with contextlib.closing(reserve_free_name()) as reserved:
            try:
                named = msgspec.structs.replace(spec, name=reserved.name)
                return _start_once(named, deadline_s - monotonic())
            except ClusterExists:
                # A start that names its cluster so needs no reservation.
                if monotonic() > deadline_s:
                    raise


def _start_once(spec: ClusterSpec, timeout_s: float) -> tuple[CoordinatorProcess, ConnectionInfo]:
    check_name_is_free(spec.name)
    process = CoordinatorProcess(spec)
    try:
        return process, process.wait_for_report(timeout_s)
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
