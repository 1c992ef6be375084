"""The two ends of a flow: what one peer is still to get, and what one is still to bring."""

import socket
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

Piece = tuple[memoryview, Callable[[], None] | None]
"""Where the next bytes of a stream go, and what to do when they are there."""


class Outgoing:
    """What one peer is still to get."""

    def __init__(self, peer: int, connection: socket.socket) -> None:
        self.peer = peer
        self.connection = connection
        self.owed = 0
        """Bytes of this operation that have not left yet, queued or still to be computed."""
        self.queue: deque[memoryview] = deque()
        self.is_blocked = False
        self.is_closed = False
        """The peer has closed it; it had all that this operation owed it."""


class Incoming:
    """What one peer is still to bring."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.pieces: Iterator[Piece] = iter(())
        self.connection: socket.socket | None = None
        self.rest: memoryview | None = None
        self.then: Callable[[], None] | None = None
        self.judge: Callable[[], None] | None = None
        """Looks at a header as soon as only the bytes `beyond` it are missing."""
        self.beyond = 0

    def add(self, pieces: Iterator[Piece]) -> None:
        """Take these pieces after the others."""
        if self.rest is None:
            self.pieces = pieces
            self.advance()
        else:
            self.pieces = chain(self.pieces, pieces)

    def fill(self, received: int) -> bool:
        """Take note of bytes that have come; tell whether more are to come."""
        assert self.rest is not None
        self.rest = rest = self.rest[received:]
        if self.judge is not None and rest.nbytes <= self.beyond:
            judge, self.judge = self.judge, None
            judge()
        if rest.nbytes == 0:
            if self.then is not None:
                self.then()
            self.advance()
        return self.rest is not None

    def advance(self) -> None:
        """Go on to the next piece that has any bytes; `rest` is None after the last one."""
        for rest, then in self.pieces:
            if rest.nbytes:
                self.rest, self.then = rest, then
                return
        self.rest = None
