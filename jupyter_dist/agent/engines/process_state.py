"""What the system tells of a process and its threads, on Linux; elsewhere: nothing."""

import contextlib
import ctypes
import os
from pathlib import Path
from typing import NamedTuple

_STATE_AT, _MAJOR_FAULTS_AT = 0, 9
"""Fields of /proc/PID/stat, counted after the name in parentheses."""


class ProcessState(NamedTuple):
    """What a process is at, at this moment."""

    letter: str = ""
    """Of its main thread: R runs, S sleeps, D waits for a disk or swap, T is stopped."""
    major_faults: int = 0
    """Pages fetched from a disk or swap since it was born, by all threads."""


def read_state(pid: int) -> ProcessState:
    """Look at a process; empty where that is not possible."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        return ProcessState(fields[_STATE_AT], int(fields[_MAJOR_FAULTS_AT]))
    except (OSError, IndexError, ValueError):
        return ProcessState()


def read_status(pid: int, name: str) -> str:
    """Return a field of /proc/PID/status; empty where there is none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    return ""


def catches(pid: int, signal_number: int) -> bool:
    """Return whether a process has a handler for a signal, so that it does not end by it."""
    return bool(int(read_status(pid, "SigCgt") or "0", 16) >> (signal_number - 1) & 1)


def find_thread(pid: int, name: str) -> int:
    """Return the id of the oldest thread that has this name; 0: there is none."""
    with contextlib.suppress(OSError):
        for thread in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name)):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if (thread / "comm").read_text("utf-8", "replace").rstrip("\n") == name:
                    return int(thread.name)
    return 0


def signal_thread(pid: int, thread_id: int, signal_number: int) -> None:
    """Signal one thread of a process; raises OSError when it is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.tgkill(pid, thread_id, signal_number):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
