"""One state for all ranks that have said the same so far: kept once, and copied where they part."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

State = TypeVar("State")
Ranks = tuple[int, ...]


class SharedStates(Generic[State]):
    """States by the ranks that share them; each rank has one, from the first time it is taken."""

    def __init__(self, new: Callable[[], State], copy: Callable[[State], State]) -> None:
        self._new, self._copy = new, copy
        self._states: dict[Ranks, State] = {}
        self._members: dict[int, Ranks] = {}
        """With whom each rank shares its state."""

    def __iter__(self) -> Iterator[tuple[Ranks, State]]:
        """Go through the states with their ranks, in the order of first ranks."""
        return iter(sorted(self._states.items(), key=itemgetter(0)))

    def find(self, rank: int) -> State | None:
        """Return the state of a rank, or None; it is not to be changed."""
        members = self._members.get(rank)
        return None if members is None else self._states[members]

    def take(self, ranks: Sequence[int]) -> list[tuple[Ranks, State]]:
        """Return the states of these ranks, to be changed: no other rank has part in them."""
        ranks = tuple(sorted(ranks))
        if ranks in self._states:
            return [(ranks, self._states[ranks])]
        wanted = frozenset(ranks)
        taken = []
        for shared in dict.fromkeys(map(self._members.get, ranks)):
            if shared is None:
                fresh = tuple(rank for rank in ranks if rank not in self._members)
                taken.append((fresh, self._put(fresh, self._new())))
            elif wanted.issuperset(shared):
                taken.append((shared, self._states[shared]))
            else:
                part = tuple(rank for rank in shared if rank in wanted)
                taken.append((part, self._split(shared, part)))
        return taken

    def _split(self, shared: Ranks, part: Ranks) -> State:
        """Give a part of the ranks that share a state one of their own."""
        state = self._states.pop(shared)
        self._put(tuple(sorted(frozenset(shared).difference(part))), self._copy(state))
        return self._put(part, state)

    def _put(self, ranks: Ranks, state: State) -> State:
        self._states[ranks] = state
        self._members.update(dict.fromkeys(ranks, ranks))
        return state
