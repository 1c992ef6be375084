"""Whom a person speaks to at the prompt of a debugger: one rank, some, or all that are stopped."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.rank import name_ranks, parse_numbers
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import fit

QUIT = "q"
"""The command that lets a rank go on, without further stops in this cell."""
_FOR_SOME = re.compile(r"\s*(?P<ranks>all|\d[\d,-]*)(?:\s+(?P<command>.*))?\Z", re.DOTALL)
_LOOKS = 2
"""So often it is looked again before it is asked without ranks that may come to a stop, too."""

_MOST_RANKS = 1_000_000

Places = Mapping[int, str]
"""Where each stopped rank is."""


class Order(NamedTuple):
    """A command, and the ranks that get it; no ranks: the person has chosen some, or erred."""

    ranks: tuple[int, ...]
    command: str = ""


class DebugConsole:
    """The prompt of one cell; knows who is meant by a plain command, and who has yet to answer."""

    def __init__(self) -> None:
        self._chosen: frozenset[int] = frozenset()
        """Ranks that a plain command is for, while they are stopped; none: all."""
        self._mistake = ""
        self._awaited: set[int] = set()
        """Ranks that have a command, and have not come back."""
        self._expects_all = False
        """No person was asked since the first rank came to a stop."""
        self._looks = 0

    def come(self, rank: int, *, is_first: bool) -> None:
        """Take in that a rank is stopped and asks; `is_first`: no other one does."""
        if is_first and not self._awaited:
            self._looks, self._expects_all = _LOOKS, True
        self._awaited.discard(rank)

    def leave(self, rank: int) -> None:
        """Take in that the cell is over on a rank."""
        self._awaited.discard(rank)

    def look(self) -> None:
        """Take in that some time has passed."""
        self._looks = max(0, self._looks - 1)

    def is_ready(self, places: Places, running: Collection[int]) -> bool:
        """Return whether a person can be asked: no other rank is likely to come in a moment."""
        has_come = set(running) <= set(places) if self._expects_all else not self._awaited
        return has_come or self._looks == 0

    def who(self, places: Places) -> str:
        """Return whom a plain command is for, and where they are, as `rank 2 at In[5]:7`."""
        meant = self._meant(places)
        groups = group_pairs((places[rank], rank) for rank in meant)
        parts = [f"{name_ranks(ranks)} at {place}" for place, ranks in groups.items()]
        if others := sorted(set(places) - set(meant)):
            parts.append(f"{name_ranks(others)} {fit(others, 'is', 'are')} stopped, too")
        mistake, self._mistake = self._mistake, ""
        return f"{mistake}\n{', '.join(parts)}" if mistake else ", ".join(parts)

    def read(self, text: str, places: Places) -> Order:
        """Read what a person has typed: `n`, `all n`, `2-3 p x.shape`; `2-3` alone chooses."""
        found = _FOR_SOME.match(text)
        if found is None:
            return self._order(self._meant(places), text)
        try:
            ranks = self._find(found["ranks"], places)
        except UsageError as problem:
            self._mistake = str(problem)
            return Order(())
        if not found["command"]:
            self._chosen = frozenset() if found["ranks"] == "all" else frozenset(ranks)
            return Order(())
        return self._order(ranks, found["command"])

    def _find(self, words: str, places: Places) -> tuple[int, ...]:
        if words == "all":
            return tuple(sorted(places))
        ranks = parse_numbers(words, _MOST_RANKS)
        if ranks is None:
            raise UsageError(f"{words!r} names no ranks: type 0,2-3 n, or all n.")
        if absent := sorted(set(ranks) - set(places)):
            raise UsageError(
                f"{words}: {name_ranks(absent)} {fit(absent, 'is', 'are')} not in the debugger; "
                f"{name_ranks(places)} {fit(places, 'is', 'are')}."
            )
        return ranks

    def _meant(self, places: Places) -> tuple[int, ...]:
        return tuple(sorted(self._chosen.intersection(places) or places))

    def _order(self, ranks: tuple[int, ...], command: str) -> Order:
        self._awaited, self._looks, self._expects_all = set(ranks), _LOOKS, False
        return Order(ranks, command)
