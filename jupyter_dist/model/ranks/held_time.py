"""For how long deadlines have stood still, because ranks were in a debugger. Takes `now_s`."""

from collections import deque
from typing import NamedTuple

COLLECTIVE_TIMEOUT_S = 1800.0
"""How long collectives wait for other ranks where a cluster says nothing else."""
_MOST_SPANS = 1024
"""Of those that are over; what began before all of them gets less than its due."""
_AGAIN_S = 0.2
"""While it is held, a deadline that has come is looked at again after this time."""


class HeldTime:
    """The spans in which deadlines stood still; one thread writes, others may read."""

    def __init__(self) -> None:
        self.is_held = False
        """Deadlines stand still now."""
        self._since_s = 0.0
        """Since when, if they do."""
        self._total_s = 0.0
        """Of the spans that are over."""
        self._spans: deque[tuple[float, float]] = deque(maxlen=_MOST_SPANS)

    def hold(self, now_s: float) -> None:
        """Let deadlines stand still from now on; again changes nothing."""
        if not self.is_held:
            self._since_s, self.is_held = now_s, True

    def release(self, now_s: float) -> None:
        """Let deadlines go on; again changes nothing."""
        if self.is_held:
            self._spans.append((self._since_s, now_s))
            self._total_s += now_s - self._since_s
            self.is_held = False

    def clock_s(self, now_s: float) -> float:
        """Return the time on a clock that stands still while deadlines do."""
        return (self._since_s if self.is_held else now_s) - self._total_s

    def held_s(self, since_s: float, now_s: float) -> float:
        """Return for how long of this time deadlines stood still, in seconds."""
        under_way = ((self._since_s, now_s),) if self.is_held else ()
        spans = (*self._spans.copy(), *under_way)
        return sum((max(0.0, end_s - max(begin_s, since_s)) for begin_s, end_s in spans), 0.0)

    def deadline_s(self, since_s: float, patience_s: float, now_s: float) -> float:
        """Return when this patience is over for what began then; while held, never just now."""
        due_s = since_s + patience_s + self.held_s(since_s, now_s)
        return max(due_s, now_s + _AGAIN_S) if self.is_held else due_s


class Deadline(NamedTuple):
    """When a patience is over that began at some time, as far as deadlines did not stand still."""

    held: HeldTime
    since_s: float
    patience_s: float

    def left_s(self, now_s: float) -> float:
        """Return the seconds that are left; none or less: it is over."""
        return self.held.deadline_s(self.since_s, self.patience_s, now_s) - now_s
