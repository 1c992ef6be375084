"""Which lines of users hold most of the memory that was allocated during a profile."""

import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jupyter_dist.engine.shell.user_frames import is_of_ipython, is_of_start, sendable
from jupyter_dist.model.ranks.profiles import Allocation
from jupyter_dist.model.ranks.stacks import MOST_CODE

DEPTH = 3
"""Calls that are kept of each allocation, to find the line of the user; each of them costs."""
MOST_SITES = 20
LEAST_BYTES = 4096
"""A line that holds less is not told of: threads and shells allocate all the time."""
_LIBRARIES = (sys.prefix, sys.base_prefix, "<")
_NO_PYTHON = "threads without Python", 0


class AllocationWatch:
    """Memory that is allocated from now on; objects of C count as far as they tell Python."""

    def __init__(self) -> None:
        self._was_tracing = tracemalloc.is_tracing()
        if not self._was_tracing:
            tracemalloc.start(DEPTH)
        self._before = tracemalloc.take_snapshot() if self._was_tracing else None

    def end(self, name_cell: Callable[[str], str]) -> tuple[int, tuple[Allocation, ...]]:
        """Return what is held by all lines together in bytes, and the lines that hold most."""
        snapshot = tracemalloc.take_snapshot()
        if not self._was_tracing:
            tracemalloc.stop()
        differences = snapshot.compare_to(self._before or _NOTHING, "traceback")
        found = [
            Found(
                tuple((frame.filename, frame.lineno) for frame in reversed(each.traceback)),
                each.size_diff,
                each.count_diff,
            )
            for each in differences
        ]
        return name_largest(found, name_cell)


_NOTHING = tracemalloc.Snapshot([], DEPTH)


class Found(NamedTuple):
    """What is held of what one place has allocated."""

    calls: tuple[tuple[str, int], ...]
    """Files and lines, the innermost first; empty: a thread that runs no Python."""
    nbytes: int
    blocks: int


def name_largest(
    found: Iterable[Found], name_cell: Callable[[str], str]
) -> tuple[int, tuple[Allocation, ...]]:
    """Return what is held by all lines together in bytes, and the lines that hold most."""
    held: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for calls, nbytes, blocks in found:
        place = _find_place(calls, name_cell)
        if place is not None:
            held[place][0] += nbytes
            held[place][1] += blocks
    largest = sorted(held.items(), key=lambda item: -item[1][0])[:MOST_SITES]
    sites = tuple(
        _describe(file, line, size, count, name_cell)
        for (file, line), (size, count) in largest
        if size >= LEAST_BYTES
    )
    return max(0, sum(size for size, _ in held.values())), sites


def _find_place(
    calls: tuple[tuple[str, int], ...], name_cell: Callable[[str], str]
) -> tuple[str, int] | None:
    """Return the innermost line of a user, else the innermost; None: it is our memory."""
    for file, line in calls:
        if name_cell(file) or not file.startswith(_LIBRARIES):
            return None if is_of_start(file) else (file, line)
    file, line = calls[0] if calls else _NO_PYTHON
    return None if is_of_start(file) or is_of_ipython(file) else (file, line)


def _describe(
    file: str, line: int, size: int, count: int, name_cell: Callable[[str], str]
) -> Allocation:
    import linecache

    text = linecache.getline(file, line).strip()[:MOST_CODE]
    site = sendable(f"{name_cell(file) or file}:{line}" if line else file)
    return Allocation(site, sendable(text), size, max(0, count))
