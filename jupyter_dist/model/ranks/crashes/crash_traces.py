"""What a process has left in its stderr: the last lines, and what faulthandler wrote. Pure."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from jupyter_dist.model.ranks.end_marks import without_end_marks
from jupyter_dist.model.ranks.source_files import NAME

LAST_LINES = 20
"""Lines of stderr that are kept."""
STACK_LINES = 120
"""All calls of the thread that was hit are among them: faulthandler writes a hundred at most."""
LINE_CAP = 300
"""Characters of each line that are kept."""
_FATAL = "Fatal Python error: "
_CURRENT = "Current thread "
_STACK = re.compile(
    r"(?:Current thread|Thread) 0x|Current thread's C stack|  (?:File \"|Binary file |<|\.\.\.)"
    r"|Extension modules: |Python runtime state: "
)
_CELL = re.compile(rf"File \"[^\"]*/{NAME}\", line (\d+)")
_CALL = re.compile(r"  File \"([^\"]*)\", line (\d+|\?+) in (.*)")
_OURS = "/jupyter_dist/"
_RUNS_PROGRAM = f'{_OURS}engine/execution/program.py"'
_RUNPY = '  File "<frozen runpy>"'
_RECURRING = 10
"""A call that is among the innermost hundred so often has called itself."""
_DEEP = "  ..."
"""What faulthandler writes in place of calls beyond the hundredth."""


class Traces(NamedTuple):
    """The two parts of what was written to stderr."""

    stderr: tuple[str, ...]
    stacks: tuple[str, ...]
    """faulthandler's lines about user code; the thread that was hit comes first."""


def read_traces(text: str) -> Traces:
    """Split the end of a stderr; of long parts the last lines and the innermost calls are kept."""
    lines = [line[:LINE_CAP] for line in text.splitlines()]
    start, end = _find_stacks(lines)
    said = [line for line in without_end_marks((*lines[:start], *lines[end:])) if line.strip()]
    return Traces(tuple(said[-LAST_LINES:]), _arrange(lines[start:end]))


def without_stacks(text: str) -> str:
    """Leave out what faulthandler wrote, which a report has in a readable form."""
    lines = text.splitlines(keepends=True)
    start, end = _find_stacks(lines)
    return "".join(without_end_marks((*lines[:start], *lines[end:])))


def _find_stacks(lines: Sequence[str]) -> tuple[int, int]:
    """Find the last lines that faulthandler wrote."""
    *_, start = (len(lines), *(at for at, line in enumerate(lines) if line.startswith(_FATAL)))
    end = start
    while end < len(lines) and (
        end == start or not lines[end].strip() or _STACK.match(lines[end]) is not None
    ):
        end += 1
    return start, end


def cell_line(stacks: Sequence[str]) -> str:
    """Return the innermost line of a cell or program in the thread that was hit; or empty.

    As `In[3]:7` or `train.py:7`.
    """
    calls = _current_thread(stacks)
    for line in calls:
        if found := _CELL.search(line):
            return f"In[{found[1]}]:{found[2]}"
    program = _program_of(calls)
    lines = (found[2] for line in calls if (found := _CALL.match(line)) and found[1] == program)
    return f"{os.path.basename(program)}:{next(lines)}" if program else ""


def _program_of(calls: Sequence[str]) -> str:
    """Return the file of the program with which the calls of a thread begin; or nothing."""
    outermost = _CALL.match(calls[-1]) if calls else None
    is_program = outermost and outermost[3] == "<module>" and _OURS not in outermost[1]
    return outermost[1] if outermost and is_program and not _CELL.search(calls[-1]) else ""


def innermost_call(stacks: Sequence[str]) -> str:
    """Name the function outside of cell and program that was called last, as `string_at`; or ""."""
    calls = _current_thread(stacks)
    for line in calls:
        if found := _CALL.match(line):
            is_users = _CELL.search(line) or found[1] == _program_of(calls)
            return "" if is_users or found[3].startswith("<") else found[3]
    return ""


def is_deep(stacks: Sequence[str]) -> bool:
    """Return whether there were more calls than faulthandler writes."""
    return _DEEP in _current_thread(stacks)


def is_recursion(stacks: Sequence[str]) -> bool:
    """Return whether the stack is deep, and made of the same few calls again and again."""
    calls = Counter(_current_thread(stacks))
    return is_deep(stacks) and max(calls.values()) >= _RECURRING


def fatal_error(stacks: Sequence[str]) -> str:
    """Return what Python named as the reason of its end, as `Segmentation fault`; or empty."""
    return stacks[0].removeprefix(_FATAL) if stacks and stacks[0].startswith(_FATAL) else ""


def _arrange(lines: Sequence[str]) -> tuple[str, ...]:
    """Put the thread that was hit before the others, and cut what is too long."""
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line.strip() and not line.startswith("Extension modules: "):
            if not line.startswith(" ") and pieces[-1]:
                pieces.append([])
            pieces[-1].append(line)
    head = [piece for piece in pieces[:1] if piece]
    threads = [calls for piece in pieces[1:] if (calls := _of_user(piece))]
    threads.sort(key=lambda calls: not calls[0].startswith(_CURRENT))
    kept = [line for piece in (*head, *threads) for line in piece]
    more = len(kept) - STACK_LINES
    return (*kept[:STACK_LINES], *([f"… {more} more lines"] if more > 0 else []))


def _of_user(thread: list[str]) -> list[str]:
    """Leave out what has called the cell or program; our threads are left out as a whole."""
    in_program = next((at for at, line in enumerate(thread) if _RUNS_PROGRAM in line), 0)
    while in_program > 1 and thread[in_program - 1].startswith(_RUNPY):
        in_program -= 1
    if in_program > 1:
        return thread[:in_program]
    in_cells = [at for at, line in enumerate(thread) if _CELL.search(line)]
    if in_cells:
        beyond = [line for line in thread[in_cells[-1] + 1 :] if line == _DEEP]
        return [*thread[: in_cells[-1] + 1], *beyond]
    is_ours = any(_OURS in line for line in thread)
    return [] if is_ours and not thread[0].startswith(_CURRENT) else thread


def _current_thread(stacks: Sequence[str]) -> list[str]:
    """Return the calls of the thread that was hit, the innermost one first."""
    calls: list[str] = []
    is_current = False
    for line in stacks:
        if not line.startswith(" "):
            is_current = line.startswith(f"{_CURRENT}0x")
        elif is_current:
            calls.append(line)
    return calls
