"""Groups of torch's: the connections of those that stand, and those that are to end in a moment."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any

from jupyter_dist.frameworks.gloo_sockets import GlooSockets

HELD_S = 0.5
"""The threads of a group wait for the interpreter at most a few of its turns."""


class Groups:
    """Groups that were made while someone watched, each with its connections of gloo."""

    def __init__(self, standing: Callable[[], list[Any]]) -> None:
        self._standing = standing
        """Gives the groups that have not been destroyed."""
        self._sockets: list[tuple[Any, GlooSockets]] = []

    @contextlib.contextmanager
    def making(self) -> Iterator[list[Any]]:
        """Watch a group come into being; the caller adds it to the list."""
        sockets, made = GlooSockets(), list[Any]()
        with sockets.watch():
            yield made
        # A group that is kept keeps its poller, so that this descriptor cannot become another.
        if sockets:
            self._sockets = [*self._sockets, *((group, sockets) for group in made)]

    def forget_destroyed(self) -> None:
        """Let go of groups that do not stand any more."""
        standing = self._standing()
        self._sockets = [
            (group, sockets)
            for group, sockets in self._sockets
            if any(group is other for other in standing)
        ]

    def shut_down(self) -> int:
        """Shut down all connections, from any thread; give how many there were."""
        return sum(sockets.shut_down() for _, sockets in self._sockets)


class DestroyedGroups:
    """Keeps a group alive a moment longer than torch does.

    A DDP model whose variable goes right after `destroy_process_group()` ends the group while it
    holds the interpreter, and waits for the group's threads; one that has yet to let go of its last
    tensor waits for the interpreter in turn, for ever.
    """

    def __init__(self) -> None:
        self._held: list[tuple[float, Any]] = []

    def hold(self, groups: Iterable[Any]) -> None:
        """Keep these from now on."""
        now_s = monotonic()
        self._held = [*self._held, *((now_s, group) for group in groups)]

    def let_go(self, now_s: float | None = None) -> None:
        """Let go of those that were kept long enough; any thread, which does not wait."""
        if not self._held:
            return
        now_s = monotonic() if now_s is None else now_s
        due = [each for each in self._held if now_s - each[0] >= HELD_S]
        if due:
            self._held = [each for each in self._held if all(each is not other for other in due)]
            # A group ends when nobody has it, which may wait for what is under way in it.
            threading.Thread(target=due.clear, name="torch-departed", daemon=True).start()
