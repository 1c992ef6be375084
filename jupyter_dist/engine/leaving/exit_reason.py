"""How a rank ends itself: it leaves the reason in its log first, for who asks afterwards."""

import os
import sys
import traceback
from typing import NoReturn

from jupyter_dist.model.ranks.end_marks import EndCause, EndMark, write_end_mark
from jupyter_dist.model.ranks.source_files import name_cell_file
from jupyter_dist.model.ranks.user_errors import name_error

_exit = os._exit
"""Python's own, whatever has been put in its place."""
_log_path = ""
_pid = 0


def watch_exits(log_path: str) -> None:
    """Have os._exit of this process, not of forked ones, leave a mark in this file."""
    global _log_path, _pid
    _log_path, _pid = log_path, os.getpid()
    for module in (os, sys.modules[os.name]):  # both have it
        setattr(module, "_exit", _exit_with_mark)  # noqa: B010  (it is nobody's attribute to type)


def _exit_with_mark(status: int) -> NoReturn:
    if os.getpid() == _pid:
        frame = sys._getframe(1)  # noqa: SLF001  (the only way to see who calls)
        file, line = frame.f_code.co_filename, frame.f_lineno
        _leave_mark(EndCause.EXIT_CALLED, f"{name_cell_file(file) or file}:{line}")
    _exit(status)


def end_normally() -> NoReturn:
    """End without a mark: someone has asked for it."""
    _exit(0)


def end_out_of_reach(silence_s: float) -> NoReturn:
    """End, because nobody can reach this rank."""
    _leave_mark(EndCause.OUT_OF_REACH, f"{silence_s:.0f} s")
    _exit(1)


def end_with_own_error(error: BaseException) -> NoReturn:
    """End for an error of jupyter-dist itself, whose traceback is written first."""
    _append(format_error(error))
    _leave_mark(EndCause.OWN_ERROR, name_error(error))
    _exit(1)


def format_error(error: BaseException) -> str:
    """Return a traceback, or the name of an error whose own words raise another one."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001  (a user's __str__ may raise anything)
        return f"{name_error(error)}\n"


def _leave_mark(cause: EndCause, detail: str) -> None:
    _append(write_end_mark(EndMark(cause, detail)))


def _append(text: str) -> None:
    """Write to the log itself: a cell may have closed or replaced descriptor 2."""
    try:
        log = os.open(_log_path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.write(log, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return  # a full disk, or no descriptor left: it ends all the same
