"""Progress bars of ranks, folded: the bars that ranks have in common are one."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from jupyter_dist.views.outputs.ansi import strip_ansi

_BARS_CAP = 200
"""Bars of one rank that are kept."""
_WORDS_CAP = 200
"""Characters of a description that are shown."""
_LARGEST = 1e30
_DIGITS = re.compile(r"\d+")
_Key = tuple[int, int]
"""Rank, and number of the bar there."""


class RankBar(msgspec.Struct, frozen=True, kw_only=True):
    """What one bar of one rank shows."""

    bar: int
    """Its number on that rank, in order of making."""
    description: str = ""
    n: int | float = 0
    total: int | float | None = None
    """None: nobody knows."""
    unit: str = "it"
    elapsed_s: float = 0.0
    is_closed: bool = False
    place: str = ""
    """The line of code that made it."""
    initial: int | float = 0
    """The count that it began with."""
    postfix: str = ""
    divisor: int = 0
    """1000 or 1024: counts are shortened with prefixes, as 12.3k; 0: they are not."""
    vanishes: bool = False
    """Nothing of it stays when it is closed."""

    @property
    def rate(self) -> float:
        """Units in a second so far, or 0."""
        return (self.n - self.initial) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; None where the total is not known."""
        return min(1.0, max(0.0, self.n / self.total)) if self.total else None

    @property
    def left_s(self) -> float | None:
        """Seconds until it is done if it goes on as before; None where nobody can tell."""
        if self.is_closed or self.total is None or self.rate <= 0:
            return None
        return max(0.0, (self.total - self.n) / self.rate)


class FoldedBar(msgspec.Struct, frozen=True):
    """One bar of all ranks that have it."""

    bars: dict[int, RankBar]
    """Of each rank, in rank order."""
    stopped: dict[int, str] = {}
    """Ranks that ended badly before their bar did, and how: `raised`."""
    moving: frozenset[int] = frozenset()
    """Ranks that may still move it."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have it."""
        return tuple(self.bars)

    @property
    def first(self) -> RankBar:
        """The bar of the first of these ranks."""
        return next(iter(self.bars.values()))

    @property
    def description(self) -> str:
        """What it is of; what differs between the ranks' numbers in it is left open."""
        texts = {bar.description: None for bar in self.bars.values()}
        if len(texts) == 1:
            return self.first.description
        patterns = {_DIGITS.sub("…", text) for text in texts}
        return patterns.pop() if len(patterns) == 1 else f"{self.first.description} …"

    @property
    def is_over(self) -> bool:
        """No rank moves it any more."""
        return not self.moving

    @property
    def slowest(self) -> int:
        """The rank that is least far; the first of several."""
        return min(self.bars, key=lambda rank: (self._progress(rank), rank))

    @property
    def fastest(self) -> int:
        """The rank that is farthest; the first of several."""
        return max(self.bars, key=lambda rank: (self._progress(rank), -rank))

    @property
    def is_even(self) -> bool:
        """All ranks are equally far."""
        return len({(bar.n, bar.total) for bar in self.bars.values()}) == 1

    @property
    def mean(self) -> float:
        """The mean of the ranks' counts."""
        return sum(bar.n for bar in self.bars.values()) / len(self.bars)

    @property
    def shares(self) -> list[float] | None:
        """How much each rank has done, from 0 to 1; None where a total is not known."""
        shares = [bar.share for bar in self.bars.values()]
        return None if None in shares else [share for share in shares if share is not None]

    @property
    def left_s(self) -> float | None:
        """Seconds until the last rank is done; None where nobody can tell."""
        left = [self.bars[rank].left_s for rank in self.moving]
        return max((each for each in left if each is not None), default=None)

    def _progress(self, rank: int) -> float:
        bar = self.bars[rank]
        return bar.n if bar.share is None else bar.share


class BarTable:
    """Takes in the bars of ranks, and folds those that they have in common.

    `rank_count`: so many ranks may have one.
    """

    def __init__(self, rank_count: int) -> None:
        self._rank_count = rank_count
        self._bars: dict[int, dict[int, RankBar]] = {}
        self._origins: dict[_Key, tuple[str, str, int]] = {}
        """Place and description that a bar began with, and the how-manieth such of its rank; in
        the order in which bars began."""
        self._made: dict[tuple[int, str, str], int] = {}

    def take(self, rank: int, data: Mapping[str, Any]) -> None:
        """Take in what a bar of a rank shows now; raises ValueError for what is no such thing."""
        bar = _read(data)
        words = {"description": bar.description, "postfix": bar.postfix}
        bar = msgspec.structs.replace(bar, **{name: _plain(text) for name, text in words.items()})
        own = self._bars.setdefault(rank, {})
        own[bar.bar] = bar
        key = rank, bar.bar
        if key not in self._origins:
            kind = rank, bar.place, bar.description
            self._made[kind] = self._made.get(kind, 0) + 1
            self._origins[key] = bar.place, bar.description, self._made[kind]
        while len(own) > _BARS_CAP:
            self._forget(rank, min(own.values(), key=_worth).bar)

    def clear(self, rank: int) -> None:
        """Forget the bars of a rank that are closed; the others show themselves again."""
        for number, bar in list(self._bars.get(rank, {}).items()):
            if bar.is_closed:
                self._forget(rank, number)

    def __bool__(self) -> bool:
        return any(self._bars.values())

    def folded(self, endings: Mapping[int, str]) -> tuple[FoldedBar, ...]:
        """Return the bars in the order in which they began.

        `endings` says of ranks that are done how they ended. Bars that vanish when they are
        closed are left out once all their ranks have closed them.
        """
        if not self._origins:
            return ()
        groups = self._join_lone_ones(self._equal_ones())
        place = {key: number for number, key in enumerate(self._origins)}
        ordered = sorted(groups, key=lambda group: min(place[each] for each in group))
        shown = []
        for group in ordered:
            folded = self._fold(group, endings)
            if not _has_vanished(folded):
                shown.append(folded)
            elif len(group) == self._rank_count:  # nobody joins it any more
                for key in group:
                    self._forget(*key)
        return tuple(shown)

    def _forget(self, rank: int, number: int) -> None:
        del self._bars[rank][number], self._origins[rank, number]

    def _equal_ones(self) -> list[list[_Key]]:
        """Group the k-th bars of each rank that come from one place with one description."""
        groups: dict[tuple[str, str, int], list[_Key]] = {}
        for rank, own in sorted(self._bars.items()):
            for number in sorted(own):
                groups.setdefault(self._origins[rank, number], []).append((rank, number))
        return list(groups.values())

    def _join_lone_ones(self, groups: Iterable[list[_Key]]) -> list[list[_Key]]:
        """Join bars of one place that no other rank has: their descriptions name the rank, say.

        The k-th such bar of each rank stands beside the k-th of the others.
        """
        shared: list[list[_Key]] = []
        lone: dict[tuple[str, int], list[_Key]] = {}
        counts: dict[tuple[str, int], int] = {}
        for group in groups:
            if len(group) > 1:
                shared.append(group)
                continue
            rank = group[0][0]
            place = self._origins[group[0]][0]
            count = counts[place, rank] = counts.get((place, rank), 0) + 1
            lone.setdefault((place, count), []).extend(group)
        return [*shared, *lone.values()]

    def _fold(self, group: Collection[_Key], endings: Mapping[int, str]) -> FoldedBar:
        bars = {rank: self._bars[rank][number] for rank, number in sorted(group)}
        stopped = {
            rank: endings[rank]
            for rank, bar in bars.items()
            if endings.get(rank, "ok") != "ok" and bar.n != bar.total
        }
        moving = {rank for rank, bar in bars.items() if not bar.is_closed and rank not in endings}
        return FoldedBar(bars, stopped, frozenset(moving))


def _read(data: Mapping[str, Any]) -> RankBar:
    try:
        bar = msgspec.convert(dict(data), RankBar)
    except (msgspec.ValidationError, TypeError) as problem:
        raise ValueError(str(problem)) from problem
    numbers = (bar.n, bar.total or 0, bar.elapsed_s, bar.initial)
    if not all(-_LARGEST < number < _LARGEST for number in numbers):  # NaN is not
        raise ValueError("its numbers cannot be counted with")
    return bar


def _worth(bar: RankBar) -> tuple[bool, bool, int]:
    """Order bars by what is lost without them: an old one that still runs may be the outer one."""
    return not (bar.is_closed and bar.vanishes), not bar.is_closed, bar.bar


def _plain(text: str) -> str:
    return " ".join(strip_ansi(text).split())[:_WORDS_CAP]


def _has_vanished(folded: FoldedBar) -> bool:
    """Return whether nothing of it is to stay; what shows where a rank stopped stays."""
    return not folded.stopped and all(
        bar.is_closed and bar.vanishes for bar in folded.bars.values()
    )
