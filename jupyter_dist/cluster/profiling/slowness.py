"""Which rank the others wait for, and at which line it loses the time. Pure."""

from collections.abc import Mapping
from statistics import median

import msgspec

from jupyter_dist.cluster.profiling.rank_times import RankTime, Window
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.stacks import Frame
from jupyter_dist.text.plurals import fit

WORTH_A_WORD = 0.1
"""Of the time, by which waits of ranks must differ before one of them is called slow."""
_ALIKE = 0.25
"""Ranks that wait this much longer than the slowest, as a share of the spread, are slow too."""


class Slowness(msgspec.Struct, frozen=True):
    """Who is slow, and where; `str()` is one sentence."""

    ranks: tuple[int, ...] = ()
    """Empty: none is, or it is not known."""
    spread: float = 0.0
    """The longest wait for others less the shortest, as a share of the time."""
    place: Frame | None = None
    """The line at which the slow ranks spend more time than the others; None: it is not known."""
    own_s: float = 0.0
    """Seconds that they spend there (the median), and"""
    others_s: float = 0.0
    """what the others do."""
    reason: str = ""
    """Why no rank is named."""

    def __str__(self) -> str:
        if not self.ranks:
            return self.reason
        who, is_ = name_ranks(self.ranks), fit(self.ranks, "is", "are")
        words = f"{who} {is_} slowest: others wait for {self.spread:.0%} of the time"
        if self.place is None:
            return f"{words}; where is not known"
        times = f"{self.own_s:.2g} s there, {self.others_s:.2g} s on others"
        return f"{words}; at {self.place} ({times})"


def find_slowness(times: Mapping[int, RankTime], window: Window) -> Slowness:
    """Return which ranks wait least for others, and what they do meanwhile."""
    busy = {rank: each for rank, each in times.items() if each.idle_s < window.seconds * 0.9}
    if not window.seconds:
        return Slowness(reason="nothing is known of a time that all ranks were profiled")
    if not busy:
        return Slowness(reason="no cell runs: all ranks are idle")
    if len(times) == 1:
        return Slowness(reason="one rank alone cannot be compared")
    if not any(each.wait_s for each in times.values()):
        return _compare_idle(times, busy)
    waits = {rank: each.wait_s for rank, each in busy.items()}
    least, most = min(waits.values()), max(waits.values())
    spread = (most - least) / window.seconds if window.seconds else 0.0
    if spread < WORTH_A_WORD:
        return Slowness(spread=spread, reason=f"no rank is slow: waits differ by {spread:.0%}")
    slow = [rank for rank, wait_s in waits.items() if wait_s <= least + _ALIKE * (most - least)]
    place, own_s, others_s = _find_place([busy[rank] for rank in slow], _others(busy, slow))
    return Slowness(tuple(slow), spread, place, own_s, others_s)


def _compare_idle(times: Mapping[int, RankTime], busy: Mapping[int, RankTime]) -> Slowness:
    if len(busy) < len(times):
        what = f"{name_ranks(busy)} still {fit(busy, 'runs', 'run')} a cell, the others do not"
    else:
        what = "no collective was recorded, so nothing tells which rank is slow"
    return Slowness(reason=what)


def _others(busy: Mapping[int, RankTime], slow: list[int]) -> list[RankTime]:
    return [each for rank, each in busy.items() if rank not in slow]


def _find_place(slow: list[RankTime], others: list[RankTime]) -> tuple[Frame | None, float, float]:
    """Return the line at which slow ranks spend most more than the others, and both times."""
    candidates = {place for each in slow for place in each.places}
    found: tuple[Frame | None, float, float] = None, 0.0, 0.0
    for place in candidates:
        own_s = median(each.places.get(place, 0.0) for each in slow)
        others_s = median([each.places.get(place, 0.0) for each in others] or [0.0])
        if own_s - others_s > found[1] - found[2]:
            found = place, own_s, others_s
    return found
