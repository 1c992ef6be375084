"""What is known of a coordinator that has not reported in time, and what can be done."""

import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO

from jupyter_dist.errors import DistError
from jupyter_dist.launch.files.connection_file import ConnectionInfo, StartReport
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.text.plurals import count_of

_STATES = {
    "R": "it is computing, or waits for a core",
    "S": "it sleeps, waiting for something",
    "D": "it waits for a disk or a file server",
    "T": "it is stopped (kill -CONT lets it go on)",
    "t": "it is stopped by a debugger",
    "Z": "it has ended",
}
_LOG_LINES = 12
_STACK_S = 0.5
"""Python writes the stack of a process at once, even when that hangs."""


def explain_silence(pid: int, last: StartReport, timeout_s: float) -> str:
    """Return how far it came, what it does now, the end of its log, and the next step."""
    cores = os.cpu_count() or 1
    parts = [
        f"its coordinator (process {pid}) did not report within {timeout_s:g} s. It "
        + (f"was {last.stage}" if last.stage else _name_beginning()),
        _describe_process(pid),
        f"this machine has {count_of(cores, 'core')}{_name_load()}",
    ]
    return (
        f"{'; '.join(filter(None, parts))}.{_quote_log(_read_log(pid, last))}"
        f"Start it again; if this machine is busy, with more time: timeout_s={2 * timeout_s:g} "
        f"(--timeout {2 * timeout_s:g})."
    )


def _name_load() -> str:
    load = ""
    if sys.platform != "win32":
        load = f", and a load of {os.getloadavg()[0]:.1f}"
    return load


def _name_beginning() -> str:
    folder = tempfile.gettempdir()
    return f"had not begun: Python was being loaded, or a directory made in {folder!r}"


def still_runs(info: ConnectionInfo, passed_s: float) -> DistError:
    """Return the error for a coordinator that was told to stop, and has not ended."""
    host, pid = info.coordinator_host, info.coordinator_pid
    where = f"on {host}" if host else f"(process {pid})"
    way = f"`jupyter dist stop {info.name}` on {host}"
    if not host:
        way = f"kill -9 {pid}; its ranks end within 10 s then"
    return DistError(
        f"cluster {info.name!r} was told to stop, but its coordinator {where} still runs after "
        f"{passed_s:.0f} s. It may stop when it answers again. To end it now: {way}."
    )


class OpenLog:
    """The log of a coordinator that starts, to be read also when the file has been removed."""

    def __init__(self, info: ConnectionInfo) -> None:
        self._info = info
        self._file: BinaryIO | None = None
        with contextlib.suppress(OSError):
            self._file = open(info.log_path, "rb")  # noqa: SIM115  (closed by close)

    def explain_loss(self, reason: str) -> str:
        """Return what is known of one that went, or was silent, before all ranks were ready."""
        pid = self._info.coordinator_pid
        state = _describe_process(pid) if process_lives(pid) else ""
        log = _quote_log(_last_lines(self._file.read()) if self._file is not None else "")
        return f"{'; '.join(filter(None, (reason, state)))}.{log}Start it again."

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


def _quote_log(said: str) -> str:
    return f" Its log ends with:\n{said}\n" if said else " "


def _describe_process(pid: int) -> str:
    """Return what Linux tells of it; empty where it tells nothing."""
    if sys.platform == "win32":
        return ""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        used_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return ""
    state = _STATES.get(fields[0], f"its state is {fields[0]}")
    return f"{state}, after {used_s:.1f} s of CPU time"


def _read_log(pid: int, last: StartReport) -> str:
    """Have it write its stacks into its log, and return the end of that; empty without a log."""
    if not last.log_path:
        return ""
    log = Path(last.log_path)
    with contextlib.suppress(OSError):
        if sys.platform != "win32":
            size = log.stat().st_size
            os.kill(pid, signal.SIGUSR1)
            deadline_s = monotonic() + _STACK_S
            while log.stat().st_size == size and monotonic() < deadline_s:
                sleep(0.02)
    with contextlib.suppress(OSError):
        return _last_lines(log.read_bytes())
    return ""


def _last_lines(said: bytes) -> str:
    return "\n".join(said.decode(errors="replace").splitlines()[-_LOG_LINES:])
