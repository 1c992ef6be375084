"""So many calls in a second, and no more: an agent in a loop must not keep a cluster busy."""

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

from jupyter_dist.errors import DistError

MOST_CALLS = 20
IN_S = 1.0


class TooManyCalls(DistError):
    """More calls than are answered; none of them has reached a cluster."""


class CallLimit:
    """Counts the calls of the last second, on any thread."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: deque[float] = deque()

    def take(self) -> None:
        """Count a call; raise TooManyCalls when there were too many."""
        with self._lock:
            now_s = self._clock()
            while self._calls and now_s - self._calls[0] >= IN_S:
                self._calls.popleft()
            if len(self._calls) >= MOST_CALLS:
                wait_s = IN_S - (now_s - self._calls[0])
                raise TooManyCalls(
                    f"{MOST_CALLS} calls in a second are answered. Ask again in {wait_s:.1f} s; "
                    "a cell that runs is better looked at every few seconds."
                )
            self._calls.append(now_s)
