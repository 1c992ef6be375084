"""What a process has started, and all that was started by that: found and ended, on Linux.

A process that adopts orphans gets every descendant whose parent has ended, also daemons in
sessions of their own. Which rank such an orphan belongs to is told by a mark that children inherit
and that neither a new session, nor another program, nor an empty environment takes away: the hard
limit of the time that real-time processes may compute. It is far beyond any use of that limit.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterator
from time import monotonic, sleep

from jupyter_dist.launch.processes.process_life import process_lives

if sys.platform != "win32":
    import resource

KEEP_VARIABLE = "JUPYTER_DIST_KEEP"
"""What was started with it in its environment, and a value, is left alone."""
_PR_SET_CHILD_SUBREAPER = 36
_MARK = 1 << 52
"""Less the number of the process; as a limit in microseconds it is 143 years."""
_HIGHEST_PID = 1 << 22
_PAUSE_S = 0.005


def adopt_orphans() -> None:
    """Make this process the parent of all its descendants whose own parent has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def mark_descendants() -> None:
    """Mark this process and all that it will start with its process number."""
    if sys.platform == "linux":
        mark = _MARK - os.getpid()
        soft, _ = resource.getrlimit(resource.RLIMIT_RTTIME)
        soft = mark if soft == resource.RLIM_INFINITY else min(soft, mark)
        # Where a lower limit is there, which may not be raised, there is no mark.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_RTTIME, (soft, mark))


def owner_of(pid: int) -> int:
    """Return the number of the marked process that this one descends from, or is; 0: of none."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # it has ended, or is of another user
            _, hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)
            return _MARK - hard if 0 < _MARK - hard <= _HIGHEST_PID else 0
    return 0


def children_of(pid: int) -> list[int]:
    """Return the numbers of the living children of a process, and of zombies among them."""
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as listed:
                children += map(int, listed.read().split())
    except (FileNotFoundError, ProcessLookupError):
        # A kernel without these lists, or a thread that has ended meanwhile.
        return [child for child, parent in _parents() if parent == pid]
    return children


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as stat:
                yield int(name), int(stat.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # it has ended, or is no process
            continue


def is_kept(pid: int) -> bool:
    """Return whether a user wants this process to outlive the rank that started it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            variables = environment.read().split(b"\0")
    except OSError:
        return False
    name = f"{KEEP_VARIABLE}=".encode()
    return any(each.startswith(name) and each != name for each in variables)


def end_orphans(living: Collection[int]) -> None:
    """Kill the children of this process whose owner is neither among the living nor alive.

    What a killed one has started falls to this process in its turn, which hears of that end.
    """
    for child in children_of(os.getpid()):
        owner = owner_of(child)
        if owner and owner not in living and not process_lives(owner) and not is_kept(child):
            _kill(child)


def end_children(timeout_s: float, *, is_marked_only: bool = False) -> None:
    """Kill the children of this process, and what falls to it by that, until none is left.

    Or only what marked processes among its descendants have left to it.
    """
    until_s = monotonic() + timeout_s
    me = os.getpid()
    spared = {0, owner_of(me)} if is_marked_only else set()
    while sys.platform == "linux":
        found = [pid for pid in children_of(me) if not spared or owner_of(pid) not in spared]
        found = [pid for pid in found if not is_kept(pid)]
        if not found or monotonic() > until_s:
            return
        for pid in found:
            _kill(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        sleep(_PAUSE_S)


def _kill(pid: int) -> None:
    """Kill a child, whose number nobody else has until it was waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
