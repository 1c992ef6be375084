"""Communicators that were split off: known to their parent for as long as a program has them."""

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_Kind = TypeVar("_Kind")


class Children(Generic[_Kind]):
    """Those that a program still has, and what is to be released of the others.

    A rank may drop one while others are still in their last call there. So nothing is released
    before all members of the parent have met once more, as they do to split again.
    """

    def __init__(self) -> None:
        self._known: list[weakref.ref[_Kind]] = []
        self._dropped: deque[Callable[[], None]] = deque()

    def __iter__(self) -> Iterator[_Kind]:
        """Return those that are still there; also while others are added on another thread."""
        for known in self._known:
            child = known()
            if child is not None:
                yield child

    def add(self, child: _Kind, release: Callable[[], None]) -> None:
        """Take note of one; `release`, which must not know it, is for when it was dropped."""
        # Garbage is collected on any thread, which must not wait.
        weakref.finalize(child, self._dropped.append, release).atexit = False
        self._known = [known for known in self._known if known() is not None]
        self._known.append(weakref.ref(child))

    def release_dropped(self) -> None:
        """Release what programs have dropped, when all members have met since; or in the end."""
        while self._dropped:
            self._dropped.popleft()()
