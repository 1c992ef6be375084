"""Handlers of signals that user code has set: between cells their errors end nothing.

An alarm may go off when the cell that has set it is over. What its handler raises then would hit
the code of the rank itself, in the middle of a message.
"""

import _signal
import signal
import traceback
from collections.abc import Callable
from operator import is_not
from types import FrameType
from typing import Any

# What the module `signal` wraps: it makes enums of all arguments, and a cell calls these often.
set_handler: Callable[[int, Any], Any] = _signal.signal
_get_handler: Callable[[int], Any] = _signal.getsignal
_NUMBERS = tuple(map(int, signal.valid_signals() - {signal.SIGINT}))
"""Listed where ranks are forked from: enums are made of them all."""
_map, _any = map, any
"""As they were: a cell may have put others in their places."""
_PACKAGE = __name__.partition(".")[0]


class UserHandlers:
    """Puts what users have set out of the way between cells; of the main thread."""

    def __init__(self) -> None:
        self._known = self._find()
        self._contained: dict[int, tuple[Any, Any]] = {}
        """What a handler of a user's is, and what stands in its place."""

    def contain(self) -> None:
        """Let what handlers raise be printed from now on; user code is over."""
        found = self._find()
        if not _any(_map(is_not, found, self._known)):
            return
        self._known = found
        for number, handler in zip(_NUMBERS, found, strict=True):
            if callable(handler) and not _is_own(handler):
                contained = _contain(handler)
                self._contained[number] = handler, contained
                set_handler(number, contained)

    def release(self) -> None:
        """Put back what users have set, unless it was replaced meanwhile: user code begins."""
        if not self._contained:
            return
        for number, (handler, contained) in self._contained.items():
            if _get_handler(number) is contained:
                set_handler(number, handler)
        self._contained.clear()
        self._known = ()

    def _find(self) -> tuple[Any, ...]:
        return tuple(_map(_get_handler, _NUMBERS))


def _is_own(handler: object) -> bool:
    """Return whether a handler belongs to this package, or to Python: they raise nothing."""
    module = getattr(handler, "__module__", None)
    is_python = handler is signal.default_int_handler
    return is_python or (isinstance(module, str) and module.partition(".")[0] == _PACKAGE)


def _contain(handler: Callable[[int, FrameType | None], object]) -> Any:
    def contained(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException:  # noqa: BLE001  (whatever it raises, the rank lives on)
            traceback.print_exc()

    return contained
