"""For how long threads could have run, and had no core: what waits for one is not stuck."""

import os
from contextlib import suppress
from typing import NamedTuple


class CoreTime(NamedTuple):
    """Of a thread, since it was born; in seconds."""

    had_s: float = 0.0
    """For which it had a core."""
    waited_s: float = 0.0
    """For which it could have run, and had none."""


def main_core_time(pid: int) -> CoreTime:
    """Return that of a process's main thread; 0.0 where Linux does not tell, or it is gone."""
    return _core_time(f"/proc/{pid}/schedstat")


def all_waited_s(pid: int) -> float:
    """Return for how long all threads of a process that live have waited for a core, together."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    return sum(thread_core_time(pid, int(thread)).waited_s for thread in threads)


def thread_core_time(pid: int, thread: int) -> CoreTime:
    """Return that of one thread; Linux counts a wait when it is over."""
    return _core_time(f"/proc/{pid}/task/{thread}/schedstat")


def ready_threads(pid: int, *prefixes: str) -> dict[int, CoreTime]:
    """Return the threads that run or could run, of those whose names begin with one of these.

    Empty where Linux does not tell, or the process is gone.
    """
    found, heads = {}, tuple(map(str.encode, prefixes))
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{thread}"
            with suppress(OSError), open(f"{path}/stat", "rb") as file:
                name, _, fields = file.read().partition(b"(")[2].rpartition(b") ")
                core_time = thread_core_time(pid, int(thread))
                if name.startswith(heads) and fields.startswith(b"R") and core_time.had_s:
                    found[int(thread)] = core_time
    return found


def _core_time(path: str) -> CoreTime:
    """Read two of three numbers: on a core, waiting for one, how often; in nanoseconds."""
    try:
        with open(path, "rb") as file:
            had, waited = file.read().split()[:2]
            return CoreTime(int(had) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return CoreTime()
