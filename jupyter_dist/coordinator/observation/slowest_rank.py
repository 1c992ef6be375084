"""Which rank the others wait for most, in a cell that goes well and runs for minutes.

Nothing is read for it: agents tell twice a second whether a rank is in a collective, and
ranks that compute for long are asked for their stacks in any case. Who is in collectives less
often than the others is the one that they wait for.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from jupyter_dist.coordinator.observation.activity import describe_site
from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.stacks import Frame
from jupyter_dist.text.plurals import fit

SLOWEST_FROM_S = 30.0
"""A cell is looked at from then on,"""
WINDOW_S = 30.0
"""and how long it is so each time before something is said."""
WORTH_A_WORD = 0.2
"""Of the time, by which waits of ranks must differ."""
_ALIKE = 0.25
"""Ranks that wait this much longer than the slowest, as a share of the spread, are slow too."""
_LEAST_LOOKS = 40


class SlowestWatch:
    """What has been seen of a cell's ranks since the last word about them."""

    def __init__(self) -> None:
        self.text = ""
        """The sentence of the last window; empty: no rank is slow."""
        self._until_s = 0.0
        self._forget()

    def take(self, seen: Sequence[RankSnapshot], now_s: float) -> None:
        """Take in how ranks are at this moment."""
        if not self._until_s:
            self._until_s = now_s + WINDOW_S
        running = [rank for rank in seen if rank.is_running and not rank.task and not rank.asks]
        if len(running) < len(seen) or len(seen) < 2:
            self.text = ""  # who has ended is waited for by none
            return
        self._looks += 1
        for rank in running:
            if rank.inside is not None:
                self._inside[rank.rank] += 1
            elif rank.stack:
                self._stacks[rank.rank][rank.stack] += 1
        if now_s >= self._until_s:
            self.text = self._tell([rank.rank for rank in running])
            self._until_s = now_s + WINDOW_S
            self._forget()

    def _forget(self) -> None:
        self._looks = 0
        self._inside: Counter[int] = Counter()
        self._stacks: defaultdict[int, Counter[tuple[Frame, ...]]] = defaultdict(Counter)

    def _tell(self, ranks: Sequence[int]) -> str:
        if self._looks < _LEAST_LOOKS:
            return ""
        shares = {rank: self._inside[rank] / self._looks for rank in ranks}
        least, most = min(shares.values()), max(shares.values())
        if most - least <= WORTH_A_WORD:
            return ""
        slow = [rank for rank in ranks if shares[rank] <= least + _ALIKE * (most - least)]
        who, is_, them = name_ranks(slow), fit(slow, "is", "are"), fit(slow, "it", "them")
        text = f"{who} {is_} slowest: others wait for {them} {most - least:.0%} of the time"
        places = self._stacks[min(slow, key=lambda rank: shares[rank])]
        if not places:
            return text
        (stack, _count), *_ = places.most_common(1)
        return f"{text}; mostly at {describe_site(stack)}"
