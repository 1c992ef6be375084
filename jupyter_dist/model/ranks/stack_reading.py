"""Stacks as tools print them, read into values; and ranks that do the same, put together. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jupyter_dist.model.ranks.source_files import find_user_code, is_own_file, name_cell_file
from jupyter_dist.model.ranks.stacks import MOST_CODE, Frame, RankStacks, ThreadStack

_FAULT_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)(?: \[(.*)\])? \(most recent")
_FAULT_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_SPY_THREAD = re.compile(r'Thread (\w+) \(([^)]*)\)(?:: "(.*)")?$')
_SPY_FRAME = re.compile(r"    (\S.*) \(([^()]+?)(?::(\d+))?\)$")
"""Calls user code, whose frames are not ours."""
_THREADING = re.compile(r"/python\d[^/]*/threading\.py$")
_MAIN = "MainThread"

ReadLine = Callable[[str, int], str]
"""Gives a line of a file, or nothing."""


class Call(NamedTuple):
    """One call as a tool tells of it."""

    file: str
    line: int
    """0: unknown."""
    function: str


class _Thread(NamedTuple):
    ident: str
    name: str
    calls: list[Call]
    """The innermost first, as tools print them."""


# --- faulthandler ---


def read_faulthandler(text: str, read_line: ReadLine | None = None) -> tuple[ThreadStack, ...]:
    """Read what `faulthandler.dump_traceback(all_threads=True)` writes; the main thread first.

    Of several dumps in one text the last one counts. Frames and threads of this package and of
    IPython are left out. The main thread has no frames while no cell runs.
    """
    threads: list[_Thread] = []
    for line in text.splitlines():
        head, frame = _FAULT_THREAD.match(line), _FAULT_FRAME.match(line)
        if head is not None:
            if any(thread.ident == head[1] for thread in threads):
                threads = []  # each thread is in a dump once: this is the next dump
            threads.append(_Thread(head[1], head[2] or f"thread {len(threads) + 1}", []))
        elif frame is not None and threads:
            number = int(frame[2]) if frame[2].isdigit() else 0
            threads[-1].calls.append(Call(frame[1], number, frame[3]))
    if not threads:
        return ()
    *others, main = threads  # threads are written from the youngest to the oldest
    found = [ThreadStack(_MAIN, True, _frames(_of_main(main.calls[::-1]), read_line))]
    for thread in others:
        frames = _frames(_of_thread(thread.calls[::-1]), read_line)
        if frames:
            found.append(ThreadStack(thread.name, False, frames))
    return tuple(found)


def _of_main(calls: Sequence[Call]) -> Sequence[Call]:
    """Return what the running cell or program is inside of."""
    at = find_user_code([call.file for call in calls])
    return () if at is None else _up_to_ours(calls[at:])


def _of_thread(calls: Sequence[Call]) -> Sequence[Call]:
    """Return what a thread is inside of; nothing for threads of ours and of IPython."""
    while len(calls) > 1 and _THREADING.search(calls[0].file):
        calls = calls[1:]
    if not calls or is_own_file(calls[0].file) or _is_of_ipython(calls[0]):
        return ()
    return _up_to_ours(calls)


def _up_to_ours(calls: Sequence[Call]) -> Sequence[Call]:
    """Cut a stack where user code calls into this package, and leave IPython out."""
    end = next((at for at, call in enumerate(calls) if at and is_own_file(call.file)), len(calls))
    return [call for call in calls[:end] if not _is_of_ipython(call)]


def _is_of_ipython(call: Call) -> bool:
    return "/IPython/" in call.file


def _frames(calls: Sequence[Call], read_line: ReadLine | None) -> tuple[Frame, ...]:
    frames = []
    for call in calls:
        where = name_cell_file(call.file) or call.file
        site = f"{where}:{call.line}" if call.line else where
        code = read_line(call.file, call.line) if read_line and call.line else ""
        frames.append(Frame(call.function, site, code.strip()[:MOST_CODE]))
    return tuple(frames)


# --- py-spy ---


def read_py_spy(text: str, read_line: ReadLine | None = None) -> tuple[ThreadStack, ...]:
    """Read what `py-spy dump` prints, native calls too; every frame is kept, main thread first."""
    threads: list[_Thread] = []
    for line in text.splitlines():
        head, frame = _SPY_THREAD.match(line), _SPY_FRAME.match(line)
        if head is not None:
            threads.append(_Thread(head[1], head[3] or f"thread {head[1]}", []))
        elif frame is not None and threads:
            threads[-1].calls.append(Call(frame[2], int(frame[3] or 0), frame[1]))
    found = [
        ThreadStack(thread.name, thread.name == _MAIN, _frames(thread.calls[::-1], read_line))
        for thread in threads
    ]
    return tuple(sorted(found, key=lambda thread: not thread.is_main))


# --- ranks that do the same ---


class StackGroup(NamedTuple):
    """Ranks whose main threads are at the same place."""

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...]
    """Of their main threads, the innermost call last; empty: see `words`."""
    words: str
    """What to know about these stacks, as the process's state; empty: nothing."""
    threads: tuple[tuple[tuple[int, ...], ThreadStack], ...]
    """Other threads of theirs, each with the ranks that have it."""


_STATES = {
    "D": "waits for a disk",
    "T": "its process is stopped",
    "t": "its process is stopped by a debugger",
    "Z": "its process has ended",
}


def group_stacks(stacks: Mapping[int, RankStacks]) -> tuple[StackGroup, ...]:
    """Put ranks with identical main stacks together: the smallest groups first."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for rank, found in sorted(stacks.items()):
        main = found.main
        places = tuple((f.site, f.function) for f in main.frames) if main else None
        groups.setdefault((places, _words(found)), []).append(rank)
    made = [_make_group(ranks, stacks) for ranks in groups.values()]
    return tuple(sorted(made, key=lambda group: (len(group.ranks), group.ranks)))


def _make_group(ranks: Sequence[int], stacks: Mapping[int, RankStacks]) -> StackGroup:
    first = stacks[ranks[0]]
    threads: dict[ThreadStack, list[int]] = {}
    for rank in ranks:
        for thread in stacks[rank].threads:
            if not thread.is_main and thread.frames:
                threads.setdefault(thread, []).append(rank)
    return StackGroup(
        tuple(ranks),
        first.main.frames if first.main else (),
        _words(first),
        tuple((tuple(owners), thread) for thread, owners in threads.items()),
    )


def _words(stacks: RankStacks) -> str:
    """Return what is to be known about a rank beside its stack."""
    main = stacks.main
    parts = [_STATES.get(stacks.process_state, "")]
    if main is None:
        parts.append(stacks.note or "its stack could not be read")
    else:
        parts.append("" if main.frames else "runs no cell")
        parts.append("" if stacks.source == "python" else f"seen by {stacks.source}")
        parts.append(stacks.note)
    return "; ".join(part for part in parts if part)
