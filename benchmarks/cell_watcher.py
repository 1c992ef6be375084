"""Hears of a cell when its ranks began and ended, for figures."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jupyter_dist.protocol.messages import Output, RankFinished


class End(NamedTuple):
    """How a rank has ended, and when that was told, in monotonic seconds."""

    status: str
    at_s: float


class CellWatcher:
    """Notes what is told of each rank."""

    def __init__(self, expected: int = 0) -> None:
        """`all_began` is set once so many ranks have said something."""
        self.ends: dict[int, End] = {}
        self.all_began = threading.Event()
        self._expected = expected
        self._began: set[int] = set()

    def on_output(self, ranks: Sequence[int] | int, outputs: Sequence[Output]) -> None:  # noqa: ARG002
        """Take in which ranks have begun; 0.1.0 tells of one at a time."""
        self._began.update((ranks,) if isinstance(ranks, int) else ranks)
        if len(self._began) == self._expected:
            self.all_began.set()

    def on_finished(self, result: RankFinished) -> None:
        """Take in how a rank has ended."""
        self.ends[result.rank] = End(result.status, time.monotonic())

    def on_note(self, text: str) -> None:
        """Nothing is read."""

    def on_tick(self) -> None:
        """Nothing is drawn."""

    def told_s(self, status: str) -> list[float]:
        """Return when ranks were told to have ended so, in ascending order."""
        return sorted(end.at_s for end in self.ends.values() if end.status == status)


def repeat(call: Callable[[], object], most: int, within_s: float) -> list[float]:
    """Call up to `most` times within this time, at least three times; return seconds of each."""
    took_s: list[float] = []
    begin_s = time.monotonic()
    while len(took_s) < most and (len(took_s) < 3 or time.monotonic() - begin_s < within_s):
        call_s = time.monotonic()
        call()
        took_s.append(time.monotonic() - call_s)
    return took_s
