"""What the progress bars of a rank show: collected with the text, a few times a second."""

import math
import threading
from collections.abc import Callable
from typing import Any

from jupyter_dist.protocol.messages import Output

Look = Callable[[], tuple[Any, float]]
"""Gives the count of a bar (None: what it shows is all there is), and its time in seconds."""
SHOW_INTERVAL_S = 0.2
"""Shortest time between two states of one bar that are sent while it runs."""

_INTEGER_BITS = 63
_STILL_AFTER_S = 1.0
_STILL_SHARE = 0.2
"""A bar that does not move is told again after this part of its time: ever more rarely."""


def bounded_number(number: float) -> int | float | None:
    """Return a plain number as a bar can carry it: whole ones of many bits as a float.

    None for what has no end or is no number.
    """
    if isinstance(number, int) and number.bit_length() <= _INTEGER_BITS:
        return number
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _look_nowhere() -> tuple[None, float]:
    """Return what is known of a bar beyond what it shows: nothing."""
    return None, 0.0


class ProgressBar:
    """One bar of a rank; its owner puts in what it shows, from any thread."""

    def __init__(self, number: int, place: str, look: Look) -> None:
        self.number = number
        self._place = place
        self._state: dict[str, Any] = {}
        self._elapsed_s = 0.0
        self._is_closed = False
        self._look = look
        self._sent: dict[str, Any] = {}
        self._sent_s = float("-inf")
        self._sent_elapsed_s = 0.0
        self._is_of_earlier_cell = False

    def show(self, state: dict[str, Any], elapsed_s: float) -> None:
        """Take in what it shows now: description, n, total, unit and what else belongs to it."""
        self._state, self._elapsed_s = state, elapsed_s

    def close(self) -> None:
        """Note that it shows nothing new any more."""
        self._is_closed = True

    @property
    def is_over(self) -> bool:
        """It is closed, and its last state has been handed out."""
        return self._is_closed and not self._has_news()

    def take(self, now_s: float, *, is_final: bool) -> Output | None:
        """Return its state when that is new and it is time; the last one of a cell always."""
        is_due = is_final or self._is_closed or now_s - self._sent_s >= SHOW_INTERVAL_S
        if not (is_due and (self._has_news() or self._stands_still())):
            return None
        self._sent, self._sent_s = self._current(), now_s
        self._sent_elapsed_s = self._time_s()
        self._is_of_earlier_cell = False
        own = {"bar": self.number, "place": self._place, "elapsed_s": self._sent_elapsed_s}
        return Output("progress", data={**own, **self._sent})

    def end_cell(self) -> None:
        """Stay silent in later cells, unless it moves on there."""
        self._is_of_earlier_cell = True

    def _has_news(self) -> bool:
        current = self._current()
        # A bar whose loop raised is closed when its memory is freed, some cells later.
        if self._is_of_earlier_cell:
            return {**current, "is_closed": False} != {**self._sent, "is_closed": False}
        return bool(self._state) and current != self._sent

    def _stands_still(self) -> bool:
        """Return whether so much time has passed that what was last reported of it misleads."""
        is_told = bool(self._sent) and not (self._is_closed or self._is_of_earlier_cell)
        return is_told and self._time_s() - self._sent_elapsed_s > max(
            _STILL_AFTER_S, _STILL_SHARE * self._sent_elapsed_s
        )

    def _time_s(self) -> float:
        looked_s = 0.0 if self._is_closed else self._look()[1]
        return round(max(self._elapsed_s, looked_s), 2)

    def _current(self) -> dict[str, Any]:
        state = {**self._state, "is_closed": self._is_closed}
        count = None if self._is_closed else self._look()[0]
        # Nothing but plain numbers: to read one from a device could take for ever.
        if type(count) is int or type(count) is float:
            state["n"] = bounded_number(count) or 0
        return state


class BarCollector:
    """All bars of a rank that may still move."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bars: dict[int, ProgressBar] = {}
        self._made = 0

    def open(self, place: str, look: Look = _look_nowhere) -> ProgressBar:
        """Make a bar; `place` says where in the code, the same on every rank.

        `look` gives count and time when the bar is looked at, which are ahead of what it shows.
        """
        with self._lock:
            self._made += 1
            bar = self._bars[self._made] = ProgressBar(self._made, place, look)
        return bar

    def take(self, now_s: float, *, is_final: bool) -> list[Output]:
        """Return the states that are new, the oldest bar first; `is_final`: the cell has ended."""
        if not self._bars:
            return []
        with self._lock:
            bars = list(self._bars.values())
        taken = [bar.take(now_s, is_final=is_final) for bar in bars]
        with self._lock:
            for bar in bars:
                if bar.is_over:
                    del self._bars[bar.number]
                elif is_final:
                    bar.end_cell()
        return [output for output in taken if output is not None]
