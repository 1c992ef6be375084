"""The stops of this rank in debuggers, of which the cluster must know: they are no hang."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jupyter_dist.protocol.messages import LeftDebugger, Message, StoppedInDebugger


class DebuggerStops:
    """Where threads of this rank are stopped, whatever debugger stops them."""

    def __init__(self, rank: Callable[[], int], post: Callable[[Message], None]) -> None:
        """`post` sends a message soon; any thread may call it."""
        self._rank, self._post = rank, post
        self._pid = os.getpid()
        self._open: set[object] = set()
        """One for each stop."""

    @contextmanager
    def stopped(self, place: str) -> Iterator[None]:
        """Be stopped at this place, as `In[5]:7`, as long as the context lasts.

        Deadlines stand still on all ranks meanwhile. In a process that the rank has forked nothing
        is sent.
        """
        if os.getpid() != self._pid:
            yield
            return
        key = object()
        self._open.add(key)
        self._post(StoppedInDebugger(self._rank(), place))
        try:
            yield
        finally:
            self._open.remove(key)
            if not self._open:
                self._post(LeftDebugger(self._rank()))
