"""The connections of every group of torch's that stands, so that they can be shut down."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from jupyter_dist.frameworks.gloo_sockets import GlooSockets


class Groups:
    """Groups that were made while somebody watched, each with its connections of gloo."""

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
