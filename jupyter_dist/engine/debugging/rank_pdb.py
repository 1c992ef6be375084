"""Python's own debugger on a rank: it asks the person of the cell, and never ends the program."""

import io
import os
import pdb
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any

import IPython

from jupyter_dist.model.ranks.source_files import PACKAGE_DIR, name_cell_file, runs_modules
from jupyter_dist.model.ranks.user_errors import name_error

_RUN_CELLS = (PACKAGE_DIR, os.path.dirname(IPython.__file__) + os.sep, "<frozen runpy>")
"""Files, or their folders, of the code that calls cells."""
_NOT_STEPPED_INTO = ("jupyter_dist", "jupyter_dist.*", "IPython.*")
_MOVES = ("n", "next", "s", "step", "r", "return", "unt", "until", "j", "jump")
_RESTARTS = ("run", "restart", "debug")

Ask = Callable[[str], str]
"""Returns a command for a debugger that is stopped at this place."""
Hold = Callable[[str], AbstractContextManager[None]]
"""Makes the context in which a rank is stopped there."""


def is_users(frame: FrameType) -> bool:
    """Return whether a frame runs code of users, or of what they call."""
    file = frame.f_code.co_filename
    return not file.startswith(_RUN_CELLS) or runs_modules(file)


def find_users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of users at or above this one."""
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return frame


def _up_to_statement(frame: FrameType) -> Iterator[FrameType]:
    """Yield a frame and those that have called it, up to the statement of the cell, or program."""
    current: FrameType | None = frame
    while current is not None and is_users(current):
        yield current
        code = current.f_code
        if code.co_name == "<module>" and name_cell_file(code.co_filename):
            return
        current = current.f_back


def name_place(file: str, line: int) -> str:
    """Return where a frame is, as `In[5]:7` or `/home/me/train.py:12`."""
    return f"{name_cell_file(file) or file}:{line}"


class RankPdb(pdb.Pdb):
    """The debugger of one thread; `on_quit` is called when it is to stop no more in this cell."""

    def __init__(self, ask: Ask, hold: Hold, on_quit: Callable[[], None]) -> None:
        self._commands = _Commands(ask)
        super().__init__(
            stdin=self._commands,
            stdout=sys.stdout,
            skip=_NOT_STEPPED_INTO,
            nosigint=True,
            readrc=False,
        )
        self.prompt = ""  # the person who is asked sees one that names ranks and places
        self._hold, self._on_quit = hold, on_quit
        self._is_post_mortem = self._is_between = False

    # --- stopping ---

    def stop(self, frame: FrameType) -> None:
        """Stop in this frame now; go on with tracing if a step was asked for."""
        self.reset()
        for each in _up_to_statement(frame):
            each.f_trace = self.trace_dispatch
            self.botframe = each
        self._is_post_mortem = self._is_between = False
        self.interaction(frame, None)
        if self.breaks or self.stoplineno != -1:
            sys.settrace(self.trace_dispatch)

    def look_at(self, error: BaseException, trace: TracebackType) -> None:
        """Stop at an error that was raised, until the person lets the rank go on."""
        self.reset()
        self._is_post_mortem = True
        try:
            self.interaction(None, error if sys.version_info >= (3, 13) else trace)
        finally:
            self._is_post_mortem = False

    def interaction(self, frame: FrameType | None, tb_or_exc: Any) -> None:
        """Be at the prompt; all ranks hold their deadlines meanwhile."""
        trace = tb_or_exc.__traceback__ if isinstance(tb_or_exc, BaseException) else tb_or_exc
        place = ""
        if frame is not None:
            place = name_place(frame.f_code.co_filename, frame.f_lineno)
        while frame is None and trace is not None:
            # An error of a collective was raised in this package: the person looks at the call.
            if not place or is_users(trace.tb_frame):
                place = name_place(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            trace = trace.tb_next
        self._commands.place = place
        with self._hold(place):
            super().interaction(frame, tb_or_exc)

    def dispatch_return(self, frame: FrameType, arg: Any) -> Any:
        """Go on behind the outermost frame of the user: in the next statement of the cell."""
        if frame is not self.botframe:
            return super().dispatch_return(frame, arg)
        self._is_between = True
        if self.stoplineno != -1:
            self.set_step()
        return None

    def dispatch_call(self, frame: FrameType, arg: Any) -> Any:
        """Leave out what runs between two statements of a cell, each of which is a frame."""
        if not self._is_between:
            return super().dispatch_call(frame, arg)
        if not name_cell_file(frame.f_code.co_filename):
            return None
        self._is_between, self.botframe = False, frame
        return self.trace_dispatch

    def _cmdloop(self) -> None:
        self.cmdloop()  # an interrupt is for the cell, and is no command to ask once more

    # --- commands ---

    def onecmd(self, line: str) -> Any:
        """Carry out a command; one that fails costs neither the stop nor the rank."""
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word in _RESTARTS or (self._is_post_mortem and word in _MOVES):
            why = "it has raised already" if self._is_post_mortem else "a rank runs cells"
            self.error(f"{word}: {why}. c lets it go on.")
            return False
        try:
            return super().onecmd(line)
        except Exception as problem:  # noqa: BLE001  (objects of users may raise anything)
            self.error(name_error(problem))
            return False

    def do_quit(self, arg: str) -> bool:
        """Go on, and stop no more in this cell: `q` ends nothing."""
        del arg
        self._on_quit()
        self.clear_all_breaks()
        self.set_continue()
        return True

    do_q = do_exit = do_EOF = do_quit  # noqa: N815  (as pdb names them)

    def format_stack_entry(self, frame_lineno: tuple[FrameType, int], *arguments: Any) -> str:
        """Return it with the cell in place of its file, as `In[5]:7 <module>()`."""
        entry = super().format_stack_entry(frame_lineno, *arguments)
        frame, line = frame_lineno
        file = frame.f_code.co_filename
        if not (cell := name_cell_file(file)):
            return entry
        return entry.replace(f"{self.canonic(file)}({line})", f"{cell}:{line} ", 1)


class _Commands(io.StringIO):
    """What a debugger reads its commands from."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask
        self.place = ""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        """Ask for the next command."""
        del size
        return f"{self._ask(self.place)}\n"
