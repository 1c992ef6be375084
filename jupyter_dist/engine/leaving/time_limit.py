"""Code of a user that must not take longer than so long: SIGINT ends it on the main thread."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

from jupyter_dist.model.ranks.user_errors import BreakOff

_SLICE_S = 0.001
_ON_ITS_WAY_S = 1.0
"""The signal may take so long to come; one that has not was taken by a handler of user code."""
_WAKE_PAUSES_S = (0.2, 0.3, 0.5)
"""A SIGINT just before a system call is seen at its end, which SIGURG brings about; again, as a
thread that had no core gets both at once."""


class OutOfTime(BreakOff):
    """The time is over; no `except Exception` of a user catches this."""


class TimeLimit:
    """A block of code that OutOfTime is raised in; on other threads than the main one it is not.

    ■ interrupts the block as it does elsewhere.
    """

    def __init__(self, limit_s: float) -> None:
        self._timer = threading.Timer(max(0.0, limit_s), self._expire)
        self._timer.daemon = True
        self._door = threading.Lock()
        self._is_on_main = threading.current_thread() is threading.main_thread()
        self._is_inside = self._has_expired = self._has_come = False
        self._before: Any = None

    def __enter__(self) -> None:
        if not self._is_on_main:
            return
        self._is_inside = True
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        self._timer.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_on_main:
            return
        with self._door:
            self._is_inside = False
        self._timer.cancel()
        # Our own signal may still be on its way, and must not hit what comes after this block.
        # No event tells of it: a handler that sets one could interrupt the wait within its lock.
        until_s = time.monotonic() + _ON_ITS_WAY_S
        while self._has_expired and not self._has_come and time.monotonic() < until_s:
            if signal.getsignal(signal.SIGINT) != self._on_signal:
                break  # the block has set another handler, which the signal comes to
            time.sleep(_SLICE_S)
        signal.signal(signal.SIGINT, self._before)

    def _expire(self) -> None:
        with self._door:
            self._has_expired = self._is_inside
            self._signal(signal.SIGINT)
        for pause_s in _WAKE_PAUSES_S:
            time.sleep(pause_s)
            with self._door:
                if self._has_come:
                    return
                self._signal(signal.SIGURG)

    def _signal(self, number: signal.Signals) -> None:
        if self._is_inside:
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._has_expired and not self._has_come:
            self._has_come = True
            if self._is_inside:
                raise OutOfTime
        elif callable(self._before):
            self._before(number, frame)
