"""Start a coordinator that outlives us, or leave nothing behind."""

import selectors
import signal
import subprocess
import sys
import threading
from time import monotonic

import msgspec

from jupyter_dist.cluster.checks import free_name
from jupyter_dist.errors import ClusterExists, StartFailed
from jupyter_dist.launch.connection_file import (
    ConnectionInfo,
    StartReport,
    connection_path,
    read_connection,
)
from jupyter_dist.model.spec import ClusterSpec

_SLICE_S = 0.1
_END_TIMEOUT_S = 8.0
_JOB_END_TIMEOUT_S = 25.0
"""With a batch job, which schedulers end in their own time."""


class CoordinatorProcess:
    """A coordinator that we started."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._process = subprocess.Popen(
            # -P: a file named like one of our imports in the current directory must not win.
            [sys.executable, "-P", "-m", "jupyter_dist.coordinator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(spec) + b"\n")
        self._process.stdin.close()

    def wait_for_report(self, timeout_s: float) -> ConnectionInfo:
        """Wait for its one line; raises StartFailed or ClusterExists."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._read_line(timeout_s)
        if not line:
            last_words = "" if line is None else self._process.stderr.read().decode().strip()
            self.end()
            silence = (
                f"said nothing for {timeout_s:g} s" if line is None else "ended without a word"
            )
            why = last_words[-2000:] or f"its coordinator {silence}"
            raise StartFailed(f"cluster {self._spec.name!r} did not start: {why}")
        report = msgspec.json.decode(line, type=StartReport)
        if report.connection is None:
            self.end()
            if "File exists" in report.problem:
                raise ClusterExists(self._spec.name)
            raise StartFailed(f"cluster {self._spec.name!r} did not start: {report.problem}")
        self._let_go()
        return report.connection

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
            has_job = self._spec.batch is not None
            if not self.wait(_JOB_END_TIMEOUT_S if has_job else _END_TIMEOUT_S):
                self._process.kill()
                self._process.wait()
        self._close_pipes()

    def _read_line(self, timeout_s: float) -> bytes | None:
        """Give the line, empty at the end of the pipe, or None when the time is over."""
        assert self._process.stdout is not None
        deadline_s = monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while monotonic() < deadline_s:
                if selector.select(_SLICE_S):
                    return self._process.stdout.readline()
        return None

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
    while True:
        try:
            return _start_once(spec)
        except ClusterExists:
            if not is_named_by_us:
                raise
            # Another start has taken the name since it was found to be free.
            spec = msgspec.structs.replace(spec, name=free_name())


def _start_once(spec: ClusterSpec) -> tuple[CoordinatorProcess, ConnectionInfo]:
    if read_connection(connection_path(spec.name)) is not None:
        raise ClusterExists(spec.name)
    process = CoordinatorProcess(spec)
    try:
        return process, process.wait_for_report(spec.timeout_s)
    except BaseException:
        process.end()
        raise
