"""What the system tells of a process and its threads, on Linux; elsewhere: nothing."""

import contextlib
import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

from jupyter_dist.launch.processes.core_wait import CoreTime, core_time, read_counters

_STATE_AT, _MAJOR_FAULTS_AT, _USER_AT, _SYSTEM_AT, _RSS_AT = 0, 9, 11, 12, 21
"""Fields of /proc/PID/stat, counted after the name in parentheses."""
_TGKILL = {"x86_64": 234, "aarch64": 131, "ppc64le": 250}
"""Number of this system call."""
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
    core: CoreTime = CoreTime()
    """For how long it has had a core, and has waited for one."""


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
    try:
        fields = read_counters(f"{path}/stat").rpartition(b")")[2].split()
        return ThreadState(fields[_STATE_AT].decode(), core_time(path))
    except (OSError, IndexError):
        return ThreadState()


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


def signal_main_thread(pid: int, signal_number: int) -> None:
    """Signal the main thread of a process; raises OSError when it is gone.

    One of the whole process may be taken by another thread while the main thread waits for a core.
    What the main thread was sleeping in then goes on as if there had been none.
    """
    if sys.platform == "linux":
        signal_thread(pid, pid, signal_number)
    else:
        os.kill(pid, signal_number)


def signal_thread(pid: int, thread_id: int, signal_number: int) -> None:
    """Signal one thread of a process; raises OSError when it is gone."""
    libc = _libc()
    if hasattr(libc, "tgkill"):
        has_failed = libc.tgkill(pid, thread_id, signal_number)
    else:  # glibc before 2.30
        has_failed = libc.syscall(_TGKILL[os.uname().machine], pid, thread_id, signal_number)
    if has_failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
