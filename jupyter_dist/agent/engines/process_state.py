"""What the system tells of a process and its threads, on Linux; elsewhere: nothing."""

import contextlib
import ctypes
import os
from pathlib import Path
from typing import NamedTuple

from jupyter_dist.launch.processes.core_wait import core_time, read_counters

_STATE_AT, _MAJOR_FAULTS_AT, _USER_AT, _SYSTEM_AT, _RSS_AT = 0, 9, 11, 12, 21
"""Fields of /proc/PID/stat, counted after the name in parentheses."""
_TICKS_PER_S, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class ProcessState(NamedTuple):
    """What a process is at, at this moment."""

    letter: str = ""
    """Of its main thread: R runs, S sleeps, D waits for a disk or swap, T is stopped."""
    major_faults: int = 0
    """Pages fetched from a disk or swap since it was born, by all threads."""
    cpu_s: float = 0.0
    """For which its threads have had a core, together, and the kernel has worked for them."""
    rss_bytes: int = 0
    """Memory that it has."""


class ThreadState(NamedTuple):
    """What a thread is at, at this moment."""

    letter: str = ""
    """As of a process."""
    sleeps: int = 0
    """How often it has given a core back because it had nothing to do."""
    had_s: float = 0.0
    """For which it has had a core."""


def read_state(pid: int) -> ProcessState:
    """Look at a process; empty where that is not possible."""
    try:
        fields = read_counters(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return ProcessState(
            fields[_STATE_AT].decode(),
            int(fields[_MAJOR_FAULTS_AT]),
            (int(fields[_USER_AT]) + int(fields[_SYSTEM_AT])) / _TICKS_PER_S,
            int(fields[_RSS_AT]) * _PAGE_BYTES,
        )
    except (OSError, IndexError, ValueError):
        return ProcessState()


def read_thread(pid: int, thread: int) -> ThreadState:
    """Look at a thread of a process; empty where that is not possible."""
    path = f"/proc/{pid}/task/{thread}"
    sleeps = _read_field(f"{path}/status", "voluntary_ctxt_switches")
    letter = _read_field(f"{path}/status", "State")[:1]
    return ThreadState(letter, int(sleeps or "0"), core_time(path).had_s)


def list_threads(pid: int) -> list[int]:
    """Return the ids of a process's threads; none where it is gone, or Linux does not tell."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def read_status(pid: int, name: str) -> str:
    """Return a field of /proc/PID/status; empty where there is none."""
    return _read_field(f"/proc/{pid}/status", name)


def _read_field(path: str, name: str) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        found = file.read().partition(f"\n{name}:".encode())[2]
        return found.partition(b"\n")[0].decode("ascii", "replace").strip()
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
