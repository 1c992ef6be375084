"""The traffic of one operation: what goes to whom and what comes from whom, all at once.

An algorithm says what it sends and plans what it receives; `run` moves the bytes in whatever
order the network allows. A received piece may trigger further sends, which is how data is
passed on round a ring while the rest is still under way.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from jupyter_dist.collective.call import Array, Call
from jupyter_dist.collective.connections import SLICE_S, Certainty, Connections, Stopped
from jupyter_dist.collective.wire import HEADER_BYTES, Breakage, pack_header, unpack_header
from jupyter_dist.errors import MalformedMessage

Piece = tuple[memoryview, Callable[[], None] | None]
"""Where the next bytes of a stream go, and what to do when they are there."""

_PIECES_PER_EVENT = 4
_MOST_BUFFERS = 16


def as_bytes(array: Array) -> memoryview:
    """View a C-contiguous array as bytes, whatever its dtype and shape."""
    return array.reshape(-1).view(np.uint8).data


class _Outgoing:
    """What one peer is still to get."""

    def __init__(self, peer: int, connection: socket.socket, owed: int) -> None:
        self.peer = peer
        self.connection = connection
        self.owed = owed
        """Bytes of this operation that have not left yet, queued or still to be computed."""
        self.queue: deque[memoryview] = deque()
        self.is_blocked = False


class _Incoming:
    """What one peer is still to bring."""

    def __init__(self, peer: int, pieces: Iterator[Piece]) -> None:
        self.peer = peer
        self.pieces = pieces
        self.connection: socket.socket | None = None
        self.rest: memoryview | None = None
        self.then: Callable[[], None] | None = None
        self.advance()

    def advance(self) -> None:
        """Go on to the next piece that has any bytes; `rest` is None after the last one."""
        for rest, then in self.pieces:
            if rest.nbytes:
                self.rest, self.then = rest, then
                return
        self.rest = None


class Flow:
    """One operation on the wire. Made, filled by an algorithm, run once."""

    def __init__(self, links: Connections, call: Call, timeout_s: float) -> None:
        self.call = call
        self.rank = links.me.rank
        self.size = links.me.size
        self.left = (self.rank - 1) % self.size
        self.right = (self.rank + 1) % self.size
        self._links = links
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        links.doing = call
        links.timeout_s = timeout_s
        self._poll = select.poll()
        self._poll.register(links.wake, select.POLLIN)
        self._outgoing: dict[int, _Outgoing] = {}
        self._incoming: dict[int, _Incoming] = {}
        self._by_fd: dict[int, _Outgoing | _Incoming] = {}

    # --- what an algorithm says --------------------------------------------------------------

    def open(self, peer: int, payload_bytes: int, call: Call | None = None) -> None:
        """Begin to send to a peer: its header first, then so many bytes by `send`."""
        connection = self._links.outgoing(peer, self._deadline)
        outgoing = _Outgoing(peer, connection, HEADER_BYTES + payload_bytes)
        self._outgoing[peer] = outgoing
        self._by_fd[connection.fileno()] = outgoing
        self._poll.register(connection, select.POLLIN)
        header = pack_header(call or self.call, self._links.me.generation, payload_bytes)
        outgoing.queue.append(memoryview(header))

    def send(self, peer: int, data: memoryview) -> None:
        """Send these bytes next; they must not change until they have left."""
        outgoing = self._outgoing[peer]
        if data.nbytes:
            outgoing.queue.append(data)
            if not outgoing.is_blocked:
                self._push(outgoing)

    def expect(
        self, peer: int, payload_bytes: int, pieces: Iterable[Piece] = (), call: Call | None = None
    ) -> None:
        """Receive from a peer: a header that must say the same as ours, then these pieces."""
        header = pack_header(call or self.call, self._links.me.generation, payload_bytes)
        self._incoming[peer] = _Incoming(peer, self._after_header(peer, header, iter(pieces)))
        self._attach(self._incoming[peer])

    def _after_header(self, peer: int, expected: bytes, pieces: Iterator[Piece]) -> Iterator[Piece]:
        received = bytearray(HEADER_BYTES)
        yield memoryview(received), None
        # The generator goes on only when the header is complete.
        if received != expected:
            raise self._mismatch(peer, received)
        yield from pieces

    def _mismatch(self, peer: int, received: bytearray) -> Stopped:
        try:
            peer_call = str(unpack_header(received)[0])
        except MalformedMessage as error:
            peer_call = str(error)
        return Stopped(Breakage("mismatch", self.rank, str(self.call), peer, peer_call))

    # --- moving bytes ------------------------------------------------------------------------

    def run(self) -> None:
        """Move everything; raise Stopped when that cannot be done, KeyboardInterrupt on Ctrl-C."""
        for outgoing in self._outgoing.values():
            if not outgoing.is_blocked:
                self._push(outgoing)
        while self._is_waiting():
            remaining_s = self._deadline - time.monotonic()
            if remaining_s <= 0:
                raise Stopped(self._overdue())
            for fd, events in self._poll.poll(1000 * min(SLICE_S, remaining_s)):
                end = self._by_fd.get(fd)
                if isinstance(end, _Outgoing):
                    self._serve_outgoing(end, events)
                elif end is not None:
                    self._pull(end)
                else:
                    self._wake_up()

    def _is_waiting(self) -> bool:
        for incoming in self._incoming.values():
            if incoming.rest is not None:
                return True
        return any(outgoing.owed for outgoing in self._outgoing.values())

    def _overdue(self) -> Breakage:
        late = [end.peer for end in self._incoming.values() if end.rest is not None]
        late = late or [end.peer for end in self._outgoing.values() if end.owed]
        names = " and ".join(f"rank {peer}" for peer in late)
        text = f"waited {self._timeout_s:g} s for {names} in {self.call}"
        return Breakage("timeout", self.rank, text)

    def _wake_up(self) -> None:
        self._links.listen_to_wake()
        for incoming in self._incoming.values():
            if incoming.connection is None:
                self._attach(incoming)

    def _attach(self, incoming: _Incoming) -> None:
        connection = self._links.incoming.get(incoming.peer)
        if connection is not None:
            incoming.connection = connection
            self._by_fd[connection.fileno()] = incoming
            self._poll.register(connection, select.POLLIN)

    def _serve_outgoing(self, outgoing: _Outgoing, events: int) -> None:
        if events & ~select.POLLOUT:
            try:
                self._links.hear(outgoing.peer)
            except OSError:
                if outgoing.owed:
                    raise self._links.closed_by(outgoing.peer, Certainty.SEEN) from None
                # It has all that this operation owes it; the next one will notice.
                self._poll.unregister(outgoing.connection)
                return
        if events & select.POLLOUT:
            self._push(outgoing)

    def _push(self, outgoing: _Outgoing) -> None:
        queue = outgoing.queue
        try:
            while queue:
                buffers = [queue[index] for index in range(min(len(queue), _MOST_BUFFERS))]
                sent = outgoing.connection.sendmsg(buffers)
                outgoing.owed -= sent
                while queue and sent >= queue[0].nbytes:
                    sent -= queue.popleft().nbytes
                if sent:
                    queue[0] = queue[0][sent:]
        except BlockingIOError:
            if not outgoing.is_blocked:
                outgoing.is_blocked = True
                self._poll.modify(outgoing.connection, select.POLLIN | select.POLLOUT)
            return
        except OSError:
            raise self._explain(outgoing) from None
        if outgoing.is_blocked:
            outgoing.is_blocked = False
            self._poll.modify(outgoing.connection, select.POLLIN)

    def _explain(self, outgoing: _Outgoing) -> Stopped:
        """Return why nothing can be sent to a peer any more: its own words, if it left any."""
        try:
            self._links.hear(outgoing.peer)
        except Stopped as told:
            return told
        except OSError:
            pass
        return self._links.closed_by(outgoing.peer, Certainty.SEEN)

    def _pull(self, incoming: _Incoming) -> None:
        connection = incoming.connection
        assert connection is not None
        for _turn in range(_PIECES_PER_EVENT):
            if incoming.rest is None:
                # Whatever comes now belongs to the next operation.
                self._poll.unregister(connection)
                return
            try:
                received = connection.recv_into(incoming.rest)
            except BlockingIOError:
                return
            except OSError:
                received = 0
            if not received:
                raise self._links.closed_by(incoming.peer, Certainty.GUESSED)
            incoming.rest = incoming.rest[received:]
            if incoming.rest.nbytes == 0:
                if incoming.then is not None:
                    incoming.then()
                incoming.advance()
