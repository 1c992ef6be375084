"""What a rank does when it hears that a host will be taken away.

link thread                          the thread that runs user code
PreemptNotice -> its position        should_save() waits from then on
SavePointChosen                      goes on; at the chosen call it does what is to be done
(look: background saving is over)    the next call, or the end of the cell: NoticeHandled

The functions of the user, and saving what is marked, come but once for each notice.
"""

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from types import FunctionType
from typing import TypeVar

from jupyter_dist.engine.leaving.exit_reason import format_error
from jupyter_dist.engine.leaving.sigterm import SigtermHandler
from jupyter_dist.engine.leaving.time_limit import OutOfTime, TimeLimit
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.preemption_agreement import Position, SavePoint
from jupyter_dist.model.ranks.user_errors import error_text, name_error
from jupyter_dist.protocol.commands import PreemptionRequest
from jupyter_dist.protocol.messages import (
    Message,
    NoticeHandled,
    NoticeOver,
    NoticePosition,
    PreemptNotice,
    SavePointChosen,
    WatchNotices,
)

_SLICE_S = 0.2
F = TypeVar("F", bound=Callable[[], object])


@dataclass
class _Notice:
    """The last notice, and what this rank has done about it."""

    number: int
    text: str
    deadline_s: float
    point: SavePoint | None = None
    is_over: bool = False
    to_call: list[Callable[[], object]] | None = None
    """Functions of the user that have not been called; None: none has been."""
    has_tried: bool = False
    """To save what is marked, together with all ranks."""
    has_saved: bool = False
    was_reached: bool = False
    """This rank was at its save point: later ones are for the coordinator to choose."""
    has_acted: bool = False
    is_done: bool = False
    """User code has gone on since; what it saves in the background may still run."""
    is_told: bool = False
    problems: list[str] = field(default_factory=list)


class NoticeDuties:
    """What a notice asks of the rest of the rank; as it is, of a rank that keeps nothing."""

    @property
    def is_saving(self) -> bool:
        """Something is still being saved in the background."""
        return False

    @property
    def can_save(self) -> bool:
        """There is a directory for what is marked."""
        return False

    @property
    def has_marks(self) -> bool:
        """Something is marked."""
        return False

    def save_marked(self) -> None:
        """Save what is marked, together with all ranks. Raise what that raises."""


class PreemptionHandler:
    """This rank's part of every notice; the link thread and user code call it."""

    def __init__(
        self, rank: Callable[[], int], post: Callable[[Message], None], sigterm: SigtermHandler
    ) -> None:
        self._rank = rank
        self._post = post
        self._sigterm = sigterm
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._functions: list[Callable[[], object]] = []
        self._cell_id = ""
        self._calls = 0
        self._step = -1
        self._asking_cell = ""
        """The last cell that has called should_save()."""
        self._is_acting = False
        self._notice: _Notice | None = None
        self._told: tuple[bool, bool, str] = (False, False, "")
        self.duties = NoticeDuties()

    # --- for user code -----------------------------------------------------------------------

    @property
    def notice(self) -> str | None:
        """Who will be taken away, and why; None: nobody, or all ranks have handled it."""
        notice = self._notice
        return None if notice is None or notice.is_over else notice.text

    def on_preempt(self, function: F) -> F:
        """Have this called, without arguments, before a host is taken away; gives it back."""
        if not callable(function):
            raise UsageError(
                f"on_preempt({function!r}) is not accepted. Give a function without arguments, "
                "which is called before a host is taken away."
            )
        with self._lock:
            for place, known in enumerate(self._functions):
                if known == function or _is_same_again(known, function):
                    self._functions[place] = function
                    break
            else:
                self._functions.append(function)
        self.tell_interest()
        return function

    def should_save(self, step: int | None = None) -> bool:
        """Return whether this is the call at which every rank saves, because a host will go.

        All ranks get True at the same call within a cell, or at the same `step` where one is
        given: a number that never gets smaller.
        """
        at = _check_step(step)
        with self._lock:
            if not self._cell_id or self._is_acting:
                return False
            self._asking_cell = self._cell_id
            self.tell_interest()
            self._end_acting()
            notice = self._await_point()
            self._calls += 1
            self._step = max(self._step, at)
            point = None if notice is None or notice.was_reached else notice.point
            if point is None or not point.is_reached(self._cell_id, self._calls, at):
                return False
        assert notice is not None
        # Another cell may run on some ranks only, with which nothing can be saved together.
        self._act(notice, saves_marked=point.saves_marked and self._cell_id == point.cell_id)
        return True

    def handle(self, request: PreemptionRequest) -> None:
        """Do what is to be done, and was not yet; the coordinator has all ranks call this.

        A rank that came after the notice hears of it here. What is interrupted here is not tried
        again.
        """
        number, saves_marked = request.number, request.saves_marked
        with self._lock:
            if self._notice is None or self._notice.number < number:
                self._notice = _Notice(number, request.text, monotonic() + request.left_s)
            notice = self._notice
        if notice.number != number:
            return
        try:
            self._act(notice, saves_marked=saves_marked)
        except KeyboardInterrupt:
            if saves_marked and not notice.has_saved:
                notice.problems.append("what is marked was not saved: it was interrupted")
            raise
        finally:
            notice.has_acted = True

    # --- the life of cells -------------------------------------------------------------------

    def enter_cell(self, cell_id: str) -> None:
        """Count calls of this cell from now on."""
        with self._lock:
            self._cell_id, self._calls, self._step = cell_id, 0, -1

    def leave_cell(self) -> None:
        """Let nobody wait for a save point any more: the cell has ended."""
        with self._lock:
            self._cell_id, self._calls, self._step = "", 0, -1
            if self._notice is not None:
                self._end_acting()
                self._changed.notify_all()

    def tell_interest(self, *, again: bool = False) -> None:
        """Tell the coordinator whether someone here wants to know, if that is news."""
        has_marks = self.duties.can_save and self.duties.has_marks
        interest = (bool(self._functions) or has_marks, has_marks, self._asking_cell)
        if interest == self._told and not again:
            return
        if not again:
            self._sigterm.install()
        self._told = interest
        self._post(WatchNotices(self._rank(), *interest))

    # --- from the link thread ----------------------------------------------------------------

    def on_message(self, message: PreemptNotice | SavePointChosen | NoticeOver) -> None:
        """Take in what the coordinator says of a notice."""
        with self._lock:
            if isinstance(message, PreemptNotice):
                deadline_s = monotonic() + message.left_s
                self._notice = _Notice(message.number, message.text, deadline_s)
                position = Position(self._cell_id, self._calls, self._step)
                self._post(NoticePosition(self._rank(), message.number, position))
                if message.tells_jax:
                    self._sigterm.tell_jax()
            elif self._notice is not None and self._notice.number == message.number:
                if isinstance(message, SavePointChosen):
                    self._notice.point = message.point
                else:
                    self._notice.is_over = True
            self._changed.notify_all()

    def look(self) -> None:
        """Tell that all is handled as soon as what was saved in the background is saved."""
        with self._lock:
            notice = self._notice
            if notice is None or not notice.is_done or notice.is_told or self.duties.is_saving:
                return
            notice.is_told = True
            self._post(
                NoticeHandled(
                    self._rank(),
                    notice.number,
                    notice.has_saved,
                    tuple(notice.problems),
                    notice.has_tried,
                )
            )

    # --- inside ------------------------------------------------------------------------------

    def _await_point(self) -> _Notice | None:
        """Wait until it is told at which call all save; None: there is no notice."""
        while (notice := self._notice) is not None and not notice.is_over:
            if notice.point is not None or monotonic() > notice.deadline_s:
                break
            self._changed.wait(_SLICE_S)
        return None if notice is None or notice.is_over else notice

    def _end_acting(self) -> None:
        """Note that user code has gone on since all was done: it has saved what it wanted to."""
        if self._notice is not None and self._notice.has_acted:
            self._notice.is_done = True
            self.look()

    def _act(self, notice: _Notice, *, saves_marked: bool) -> None:
        """Call the functions of the user, and save what is marked; each but once.

        What an interrupt keeps from being done here is done when the cell is over.
        """
        self._is_acting = notice.was_reached = True
        try:
            if notice.to_call is None:
                notice.to_call = list(self._functions)
            is_to_save = saves_marked and self.duties.can_save and not notice.has_saved
            while notice.to_call:
                share = len(notice.to_call) + is_to_save
                function = notice.to_call.pop(0)
                self._call(function, (notice.deadline_s - monotonic()) / share, notice)
            if is_to_save:
                self._save_marked(notice)
            notice.has_acted = True
        finally:
            self._is_acting = False

    def _call(self, function: Callable[[], object], limit_s: float, notice: _Notice) -> None:
        name = getattr(function, "__qualname__", repr(function))
        try:
            with TimeLimit(limit_s):
                function()
        except OutOfTime:
            notice.problems.append(
                f"{name}() of on_preempt was ended, because it took longer than {limit_s:.1f} s"
            )
        except KeyboardInterrupt:
            notice.problems.append(f"{name}() of on_preempt was interrupted")
            raise
        except BaseException as error:  # noqa: BLE001  (users' functions raise anything)
            notice.problems.append(
                f"{name}() of on_preempt raised {name_error(error)}{_place(error)}"
            )
            _log(error)

    def _save_marked(self, notice: _Notice) -> None:
        try:
            with TimeLimit(notice.deadline_s - monotonic()):
                self.duties.save_marked()
            notice.has_saved = notice.has_tried = True
        except OutOfTime:
            notice.has_tried = True
            notice.problems.append("what is marked could not be saved in the time that was left")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (of objects that users have marked)
            notice.has_tried = True
            notice.problems.append(f"what is marked was not saved: {error_text(error)}")
            _log(error)


def _check_step(step: int | None) -> int:
    """Return the step as a number, -1 for none; raises UsageError for what is no step."""
    if step is None:
        return -1
    try:
        at = step.__index__()
    except AttributeError:
        at = -1
    if at < 0:
        raise UsageError(
            f"should_save({step!r}) is not accepted. Give the number of the step, 0 or more, or "
            "nothing: then its calls are counted."
        )
    return at


def _is_same_again(known: object, function: object) -> bool:
    """Return whether two functions come from one definition that was run twice, as in a cell."""
    if not (isinstance(known, FunctionType) and isinstance(function, FunctionType)):
        return False  # of methods each belongs to an object of its own
    names = (known.__module__, known.__qualname__), (function.__module__, function.__qualname__)
    return names[0] == names[1] and "<" not in function.__qualname__


def _place(error: BaseException) -> str:
    """Return where it was raised, as no cell shows the traceback; empty: not known."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    # The same on all ranks, whose cells lie in folders of their own: one sentence names them all.
    file, line = os.path.basename(frames[-1].filename), frames[-1].lineno
    return f" (line {line} of its cell)" if file.startswith("<") else f" ({file}:{line})"


def _log(error: BaseException) -> None:
    """Write the traceback to stderr, which may be a stream of a user that raises anything."""
    with contextlib.suppress(BaseException):
        sys.stderr.write(format_error(error))
