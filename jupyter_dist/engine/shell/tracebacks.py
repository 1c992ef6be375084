"""Which part of a traceback users see: from their cell's line to where it calls this package."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile
from types import TracebackType

import IPython

from jupyter_dist.model.ranks.source_files import PACKAGE_DIR, is_own_file, runs_modules

NameCell = Callable[[str], str]
"""Names the cell whose code has this file name; empty for other code."""
_RUNNER = "<frozen runpy>"
_PROGRAMS = os.path.join(PACKAGE_DIR, "engine", "execution", "program.py")
_FRAMEWORKS = ("jax", "torch", "cupy", "cupyx", "mpi4py")
"""Calls user code, whose errors are not ours."""
_RUN_CELLS = (_RUNNER, PACKAGE_DIR, os.path.dirname(IPython.__file__) + os.sep)
"""Files, or their folders, of the code that calls cells."""


def up_to_our_code(trace: TracebackType | None) -> TracebackType | None:
    """Cut a traceback where user code called into this package; keep it if it did not.

    Where a framework stands between the two, it is cut before that.
    """
    steps: list[TracebackType] = []
    for step in _steps(trace):
        if _is_ours(step) and steps and not _is_ours(steps[-1]):
            # To lay out frames of JAX costs a second, and tells users nothing.
            while len(steps) > 1 and _is_of_framework(steps[-1]):
                steps.pop()
            break
        steps.append(step)
    return _chain(steps)


def without_command(trace: TracebackType | None) -> TracebackType | None:
    """Leave out the code that carries out a command where that has run modules of users."""
    steps = list(_steps(trace))
    files = [step.tb_frame.f_code.co_filename for step in steps]
    at = next((at for at, file in enumerate(files) if runs_modules(file)), None)
    if at is None:
        return trace
    return _chain([*(step for step in steps[:at] if not _is_ours(step)), *steps[at:]])


def within_program(trace: TracebackType | None) -> TracebackType | None:
    """Leave out how a rank came to run a program; None where none of its lines has run."""
    steps = list(_steps(trace))
    runs = [at for at, step in enumerate(steps) if step.tb_frame.f_code.co_filename == _PROGRAMS]
    if not runs:
        return trace
    inside = iter(steps[runs[-1] + 1 :])
    return _chain([*dropwhile(lambda step: step.tb_frame.f_code.co_filename == _RUNNER, inside)])


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _chain(steps: Sequence[TracebackType]) -> TracebackType | None:
    chained: TracebackType | None = None
    for step in reversed(steps):
        chained = TracebackType(chained, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return chained


def ends_in_our_code(trace: TracebackType | None) -> bool:
    """Return whether an error was raised by this package itself."""
    return any(_is_ours(step) for step in _steps(trace) if step.tb_next is None)


def _is_ours(step: TracebackType) -> bool:
    return is_own_file(step.tb_frame.f_code.co_filename)


def is_handled_within(error: BaseException | None) -> bool:
    """Return whether an error never came out of a framework, or of this package."""
    trace = None if error is None else error.__traceback__
    return trace is not None and all(
        _is_ours(step) or _is_of_framework(step) for step in _steps(trace)
    )


def _is_of_framework(step: TracebackType) -> bool:
    module = step.tb_frame.f_globals.get("__name__") or ""
    return module.partition(".")[0] in _FRAMEWORKS


def has_group(error: BaseException | None) -> bool:
    """Return whether an error is a group of several, or one was handled when it was raised."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, BaseExceptionGroup):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def begin_in_cell(trace: TracebackType | None, name_cell: NameCell) -> TracebackType | None:
    """Leave out how a rank came to run the cell; keep a traceback without a line of a cell."""
    if trace is None or not trace.tb_frame.f_code.co_filename.startswith(_RUN_CELLS):
        return trace
    in_cells = (step for step in _steps(trace) if name_cell(step.tb_frame.f_code.co_filename))
    return next(in_cells, trace)


def begin_others_in_cell(error: BaseException, name_cell: NameCell) -> None:
    """Do the same for the errors from which this one came: JAX gives one the stack of a call."""
    for other in _behind(error):
        trace = begin_in_cell(other.__traceback__, name_cell)
        BaseException.with_traceback(other, trace)  # whatever its class has made of it


def _behind(error: BaseException) -> Iterator[BaseException]:
    seen, waiting = {id(error)}, [error]
    while waiting:
        current = waiting.pop()
        members = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        for other in (current.__cause__, current.__context__, *members):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
                yield other
