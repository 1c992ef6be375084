"""What the threads of this rank are doing, as its user sees them: without our frames."""

import linecache
import threading
from collections.abc import Callable, Iterable, Iterator
from time import sleep
from types import FrameType
from typing import Any

from jupyter_dist.engine.channel import channel
from jupyter_dist.engine.shell.user_frames import is_of_ipython, is_of_start, sendable
from jupyter_dist.frameworks.thread_frames import Call, read_calls
from jupyter_dist.model.ranks.source_files import find_user_code, is_own_file
from jupyter_dist.model.ranks.stacks import MOST_CODE, Frame, RankStacks, ThreadStack

NameCell = Callable[[str], str]
FIRST_FRAMES, LAST_FRAMES = 20, 180
"""Of a deeper stack, what is between them is left out."""
MOST_THREADS = 100


def read_stacks(name_cell: NameCell, current_cell: Callable[[], str]) -> RankStacks:
    """Look at all threads; `name_cell` gives `In[3]` for the file of a cell.

    `current_cell` gives the code of the cell that runs, for where its file cannot be read.
    """
    main_id = threading.main_thread().ident or 0
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    # Who has just got the interpreter keeps it for some milliseconds: nothing moves meanwhile.
    sleep(0)
    stacks = read_calls()
    awaited = _suspended_calls(stacks.get(main_id, []))
    # From here on files are read, and the threads move on.
    reader = _Reader(name_cell, current_cell)
    threads = [ThreadStack("MainThread", is_main=True)]
    for ident, calls in stacks.items():
        if ident == main_id:
            frames = reader.of_main(calls, awaited)
            threads[0] = ThreadStack("MainThread", is_main=True, frames=frames)
        elif (frames := reader.of_thread(calls)) and len(threads) < MOST_THREADS:
            name = names.get(ident, f"thread {ident}")
            threads.append(ThreadStack(name, is_main=False, frames=frames))
    return RankStacks(threads=tuple(threads))


class _Reader:
    def __init__(self, name_cell: NameCell, current_cell: Callable[[], str]) -> None:
        self._name_cell = name_cell
        self._current_cell = current_cell

    def of_main(self, calls: list[Call], awaited: list[Call]) -> tuple[Frame, ...]:
        """Return what a cell or program is inside of, or waits for; nothing when none runs."""
        for found in (calls, awaited):
            at = find_user_code([frame.f_code.co_filename for frame, _ in found], self._name_cell)
            if at is not None:
                return self._describe(_up_to_ours(found[at:]))
        if any(frame.f_code.co_filename == channel.__file__ for frame, _ in calls):
            return ()  # between cells, where the rank calls libraries for itself
        # Callbacks of an event loop, or what the shell does before the cell begins.
        return self._describe(call for call in calls if not is_of_start(call[0].f_code.co_filename))

    def of_thread(self, calls: list[Call]) -> tuple[Frame, ...]:
        """Return what a thread is inside of; nothing for threads of ours and of IPython."""
        while calls and calls[0][0].f_code.co_filename == threading.__file__ and len(calls) > 1:
            calls = calls[1:]
        if not calls or _is_ours(calls[0][0]) or is_of_ipython(calls[0][0].f_code.co_filename):
            return ()
        return self._describe(_up_to_ours(calls))

    def _describe(self, calls: Iterable[Call]) -> tuple[Frame, ...]:
        frames = [
            self._frame(*call) for call in calls if not is_of_ipython(call[0].f_code.co_filename)
        ]
        if len(frames) > FIRST_FRAMES + LAST_FRAMES:
            frames = frames[:FIRST_FRAMES] + frames[-LAST_FRAMES:]
        return tuple(frames)

    def _frame(self, frame: FrameType, line: int) -> Frame:
        file = frame.f_code.co_filename
        cell = self._name_cell(file)
        text = linecache.getline(file, line, frame.f_globals)
        if cell and not text:
            lines = self._current_cell().splitlines()
            text = lines[line - 1] if 0 < line <= len(lines) else ""
        site = f"{cell or file}:{line}"
        return Frame(frame.f_code.co_name, sendable(site), sendable(text.strip()[:MOST_CODE]))


def _up_to_ours(calls: list[Call]) -> list[Call]:
    """Cut a stack where user code calls into this package."""
    end = next((at for at, (frame, _) in enumerate(calls) if at and _is_ours(frame)), len(calls))
    return calls[:end]


def _is_ours(frame: FrameType) -> bool:
    return is_own_file(frame.f_code.co_filename)


def _suspended_calls(calls: list[Call]) -> list[Call]:
    """List what the task that an event loop runs to its end is suspended in, outermost first."""
    for frame, _ in calls:
        if frame.f_code.co_name == "run_until_complete":
            from asyncio import Task  # it is loaded, if this is its

            task: Any = frame.f_locals.get("future")
            if isinstance(task, Task):
                return list(_suspended_in(task.get_coro()))
    return []


def _suspended_in(awaited: Any) -> Iterator[Call]:
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield frame, frame.f_lineno or 0
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
