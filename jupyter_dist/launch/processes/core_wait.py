"""For how long threads could have run, and had no core: what waits for one is not stuck."""

import os
from contextlib import suppress
from typing import NamedTuple

_MOST_BYTES = 4096


class CoreTime(NamedTuple):
    """Of a thread, since it was born; in seconds."""

    had_s: float = 0.0
    """For which it had a core."""
    waited_s: float = 0.0
    """For which it could have run, and had none; a wait that goes on is not among them."""
    slices: int = 0
    """Time slices: how often it was given a core."""


def main_core_time(pid: int) -> CoreTime:
    """Return that of a process's main thread; 0.0 where Linux does not tell, or it is gone."""
    return core_time(f"/proc/{pid}")


def all_waited_s(pid: int) -> float:
    """Return for how long all threads of a process that live have waited for a core, together."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    return sum(core_time(f"/proc/{pid}/task/{thread}").waited_s for thread in threads)


class Threads(NamedTuple):
    """Some threads of a process, at one moment."""

    had_s: float = 0.0
    """For which they have had a core since they were born, together; in seconds."""
    can_run: bool = False
    """One of them has a core, or waits for one."""


def look_at_threads(pid: int, *prefixes: str) -> Threads:
    """Look at the threads whose names begin with one of these, or without any at all of them.

    Nothing is seen where Linux does not tell, or the process is gone.
    """
    heads = tuple(map(str.encode, prefixes or ("",)))
    had_s, can_run = 0.0, False
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}"
            with suppress(OSError):
                name, _, fields = read_counters(f"{path}/stat").partition(b"(")[2].rpartition(b") ")
                if name.startswith(heads):
                    had_s += core_time(path).had_s
                    can_run |= fields.startswith(b"R")
    return Threads(had_s, can_run and had_s > 0)


def core_time(path: str) -> CoreTime:
    """Return that of a process or thread with this folder in /proc; 0.0 as above.

    Its three numbers are nanoseconds on a core, nanoseconds waiting for one, and how often.
    """
    try:
        had, waited, slices = map(int, read_counters(f"{path}/schedstat").split())
        return CoreTime(had / 1e9, waited / 1e9, slices)
    except (OSError, ValueError):
        return CoreTime()


def read_counters(path: str) -> bytes:
    """Return a line of /proc: hundreds are read twice a second, and a file of `io` takes longer."""
    line = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(line, _MOST_BYTES)
    finally:
        os.close(line)
