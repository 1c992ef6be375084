"""The traffic of one operation: what goes to whom and what comes from whom, all at once.

An algorithm says what it sends and plans what it receives; `run` moves the bytes in whatever
order the network allows. A received piece may trigger further sends, which is how data is
passed on round a ring while the rest is still under way.
"""

import select
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

import numpy as np

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.calls.call import Array, Call, OnWaiting
from jupyter_dist.collective.ring.connections import (
    GRACE_S,
    SLICE_S,
    Connections,
)
from jupyter_dist.collective.ring.stopped import Certainty, Stopped
from jupyter_dist.collective.ring.streams import Incoming, Outgoing, Piece
from jupyter_dist.collective.ring.wire import (
    AGREED_BYTES,
    HEADER_BYTES,
    pack_header,
    unpack_header,
)
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.model.hosts.rank import name_ranks

_PIECES_PER_EVENT = 4
_MOST_BUFFERS = 16
_TOGETHER_BYTES = 8192
"""Messages up to this size are received with their header, which saves a call to the system."""


def as_bytes(array: Array) -> memoryview:
    """View a C-contiguous array as bytes, whatever its dtype and shape."""
    return array.reshape(-1).view(np.uint8).data


class Flow:
    """One operation on the wire. Made, filled by an algorithm, run once."""

    def __init__(
        self,
        links: Connections,
        call: Call,
        timeout_s: float,
        site: str,
        on_waiting: OnWaiting | None,
    ) -> None:
        self.call = call
        self._site = site
        self.other_site = ""
        """Another line, on which a peer made the same call."""
        self._on_waiting = on_waiting
        self.rank = links.me.rank
        self.size = links.me.size
        self.left = (self.rank - 1) % self.size
        self.right = (self.rank + 1) % self.size
        self._links = links
        self._world_ranks = links.world_ranks
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        links.doing = call
        links.timeout_s = timeout_s
        self._poll = select.poll()
        self._poll.register(links.wake, select.POLLIN)
        self._outgoing: dict[int, Outgoing] = {}
        self._incoming: dict[int, Incoming] = {}
        self._by_fd: dict[int, Outgoing | Incoming] = {}
        self._headers: dict[int, bytes] = {}
        self._looks_at = time.monotonic() + SLICE_S
        """When to look again for peers that are waited for and have never connected."""

    # --- what an algorithm says --------------------------------------------------------------

    def open(self, peer: int, payload_bytes: int, call: Call | None = None) -> None:
        """Begin to send to a peer: a header first, then so many bytes by `send`."""
        header = self._header(call, payload_bytes)
        outgoing = self._outgoing.get(peer) or self._reach(peer)
        outgoing.owed += HEADER_BYTES + payload_bytes
        outgoing.queue.append(memoryview(header))

    def _reach(self, peer: int) -> Outgoing:
        connection = self._links.outgoing(peer, self._deadline)
        outgoing = Outgoing(peer, connection)
        self._outgoing[peer] = outgoing
        self._by_fd[connection.fileno()] = outgoing
        self._poll.register(connection, select.POLLIN)
        return outgoing

    def send(self, peer: int, data: memoryview) -> None:
        """Send these bytes next; they must not change until they have left."""
        outgoing = self._outgoing[peer]
        if data.nbytes:
            outgoing.queue.append(data)
            if not outgoing.is_blocked:
                self._push(outgoing)

    def receive(self, peer: int, output: memoryview, call: Call | None = None) -> None:
        """Receive from a peer: a header that must say the same as ours, then these bytes."""
        incoming = self._from(peer)
        incoming.add(self._whole(incoming, output, call))

    def expect(self, peer: int, payload_bytes: int, pieces: Iterable[Piece] = ()) -> None:
        """Receive from a peer: a header as for `receive`, then pieces, which come one by one."""
        incoming = self._from(peer)
        incoming.add(self._stream(incoming, payload_bytes, pieces))

    def _from(self, peer: int) -> Incoming:
        incoming = self._incoming.get(peer)
        if incoming is None:
            incoming = self._incoming[peer] = Incoming(peer)
            self._attach(incoming)
        return incoming

    def _header(self, call: Call | None, payload_bytes: int) -> bytes:
        generation = self._links.me.generation
        if call is not None:
            return pack_header(call, generation, payload_bytes, self._site)
        header = self._headers.get(payload_bytes)
        if header is None:
            header = pack_header(self.call, generation, payload_bytes, self._site)
            self._headers[payload_bytes] = header
        return header

    def _whole(self, incoming: Incoming, output: memoryview, call: Call | None) -> Iterator[Piece]:
        beyond = output.nbytes if output.nbytes <= _TOGETHER_BYTES else 0
        received = self._await_header(incoming, call, output.nbytes, beyond)
        yield received, None
        if beyond:
            output[:] = received[HEADER_BYTES:]
        else:
            yield output, None

    def _stream(
        self, incoming: Incoming, payload_bytes: int, pieces: Iterable[Piece]
    ) -> Iterator[Piece]:
        yield self._await_header(incoming, None, payload_bytes, 0), None
        yield from pieces

    def _await_header(
        self, incoming: Incoming, call: Call | None, payload_bytes: int, beyond: int
    ) -> memoryview:
        """Return room for a header, which is judged once it is there, and some bytes beyond it."""
        expected = self._header(call, payload_bytes)
        received = memoryview(bytearray(HEADER_BYTES + beyond))
        incoming.beyond = beyond
        incoming.judge = partial(self._judge, incoming.peer, call, received, expected)
        return received

    def _judge(self, peer: int, call: Call | None, received: memoryview, expected: bytes) -> None:
        if received[:HEADER_BYTES] == expected:
            return
        if received[:AGREED_BYTES] != expected[:AGREED_BYTES]:
            raise self._mismatch(call or self.call, peer, received[:HEADER_BYTES])
        self.other_site = unpack_header(received[:HEADER_BYTES])[3]

    def _mismatch(self, call: Call, peer: int, received: memoryview) -> Stopped:
        try:
            theirs, _generation, _bytes, site = unpack_header(received)
            peer_call = _placed(theirs, site)
        except MalformedMessage as error:
            peer_call = str(error)
        ours = _placed(call, self._site)
        me, other = self._world_ranks[self.rank], self._world_ranks[peer]
        return Stopped(Breakage("mismatch", me, ours, other, peer_call))

    # --- moving bytes ------------------------------------------------------------------------

    def run(self) -> None:
        """Move everything; raise Stopped when that cannot be done, KeyboardInterrupt on Ctrl-C."""
        for outgoing in self._outgoing.values():
            if outgoing.queue and not outgoing.is_blocked:
                self._push(outgoing)
        while self._is_waiting():
            now = time.monotonic()
            if now >= self._deadline:
                raise Stopped(self._overdue())
            if now >= self._looks_at:
                self._look_for_absent()
                if self._on_waiting is not None:
                    self._on_waiting(self.call, self._find_late())
            wait_s = min(SLICE_S, self._deadline - now, max(0.0, self._looks_at - now))
            for fd, events in self._poll.poll(1000 * wait_s):
                end = self._by_fd.get(fd)
                if isinstance(end, Outgoing):
                    self._serve_outgoing(end, events)
                elif end is not None:
                    self._pull(end)
                else:
                    self._links.listen_to_wake()
                    self._attach_all()

    def _is_waiting(self) -> bool:
        for incoming in self._incoming.values():
            if incoming.rest is not None:
                return True
        return any(outgoing.owed for outgoing in self._outgoing.values())

    def _overdue(self) -> Breakage:
        late = self._find_late()
        late = late or [self._world_ranks[end.peer] for end in self._outgoing.values() if end.owed]
        names = name_ranks(late)
        text = f"waited {self._timeout_s:g} s for {names} in {self.call}"
        return Breakage("timeout", self._world_ranks[self.rank], text)

    def _find_late(self) -> list[int]:
        """Return the ranks of the cluster whose data has not come."""
        ends = self._incoming.values()
        return [self._world_ranks[end.peer] for end in ends if end.rest is not None]

    def _attach_all(self) -> None:
        for incoming in self._incoming.values():
            if incoming.connection is None:
                self._attach(incoming)

    def _look_for_absent(self) -> None:
        """Make sure that whoever is waited for can be heard, should it leave or die.

        A peer that has never connected could do so without a trace, so that it is connected to.
        """
        self._looks_at = time.monotonic() + SLICE_S
        absent = [end.peer for end in self._incoming.values() if end.connection is None]
        for peer in absent:
            outgoing = self._outgoing.get(peer) or self._reach(peer)
            if outgoing.is_closed:
                raise self._links.closed_by(peer, Certainty.SEEN)
        self._attach_all()

    def _attach(self, incoming: Incoming) -> None:
        connection = self._links.incoming.get(incoming.peer)
        if connection is not None:
            incoming.connection = connection
            self._by_fd[connection.fileno()] = incoming
            self._poll.register(connection, select.POLLIN)

    def _serve_outgoing(self, outgoing: Outgoing, events: int) -> None:
        if events & ~select.POLLOUT:
            try:
                self._links.hear(outgoing.peer)
            except OSError:
                if outgoing.owed:
                    raise self._links.closed_by(outgoing.peer, Certainty.SEEN) from None
                # It has all that this operation owes it; the next one will notice. What it still
                # brings may just be coming in.
                outgoing.is_closed = True
                self._looks_at = time.monotonic() + GRACE_S
                self._poll.unregister(outgoing.connection)
                return
        if events & select.POLLOUT:
            self._push(outgoing)

    def _push(self, outgoing: Outgoing) -> None:
        queue = outgoing.queue
        try:
            while queue:
                sent = outgoing.connection.sendmsg(list(islice(queue, _MOST_BUFFERS)))
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
        except OSError as error:
            self._links.note_reset(outgoing.peer, error)
            raise self._explain(outgoing) from None
        if outgoing.is_blocked:
            outgoing.is_blocked = False
            self._poll.modify(outgoing.connection, select.POLLIN)

    def _explain(self, outgoing: Outgoing) -> Stopped:
        """Return why nothing can be sent to a peer any more: its own words, if it left any."""
        try:
            self._links.hear(outgoing.peer)
        except Stopped as told:
            return told
        except OSError:
            pass
        return self._links.closed_by(outgoing.peer, Certainty.SEEN)

    def _pull(self, incoming: Incoming) -> None:
        connection = incoming.connection
        assert connection is not None
        if incoming.rest is None:
            # Whatever comes now belongs to the next operation.
            self._poll.unregister(connection)
            return
        for _turn in range(_PIECES_PER_EVENT):
            try:
                received = connection.recv_into(incoming.rest)
            except BlockingIOError:
                return
            except OSError as error:
                self._links.note_reset(incoming.peer, error)
                received = 0
            if not received:
                raise self._links.closed_by(incoming.peer, Certainty.GUESSED)
            if not incoming.fill(received):
                return


def _placed(call: Call, site: str) -> str:
    return f"{call} at {site}" if site else str(call)
