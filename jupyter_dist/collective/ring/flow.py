"""The traffic of one operation: what goes to whom and what comes from whom, all at once.

An algorithm says what it sends and plans what it receives; `run` moves the bytes in whatever
order the network allows. A received piece may trigger further sends, which is how data is
passed on round a ring while the rest is still under way.
"""

import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from jupyter_dist.collective.ring.heading import Header, Heading
from jupyter_dist.collective.ring.stopped import Certainty, Stopped
from jupyter_dist.collective.ring.streams import Incoming, Outgoing, Piece
from jupyter_dist.collective.ring.wire import HEADER_BYTES
from jupyter_dist.model.ranks.held_time import Deadline

_PIECES_PER_EVENT = 4
_MOST_BUFFERS = 16
_TOGETHER_BYTES = 8192
"""Messages up to this size are received with their header, which saves a call to the system."""


def as_bytes(array: Array) -> memoryview:
    """View a C-contiguous array as bytes, whatever its dtype and shape."""
    return array.reshape(-1).view(np.uint8).data


class Flow:
    """One operation on the wire. Made, filled by an algorithm, run; or both again, step by step.

    `members` are the ranks that take part, and of each for which others it stands; here they are
    known by their places among them. `find_header_ahead` is given where ranks share memory, and
    what goes over the wire nevertheless is messages: it returns the header of a peer that waits for
    this rank there, or None.
    """

    def __init__(
        self,
        links: Connections,
        heading: Heading,
        timeout_s: float,
        on_waiting: OnWaiting | None,
        members: Mapping[int, Sequence[int]],
        find_header_ahead: Callable[[int], Header | None] | None = None,
    ) -> None:
        self._heading = heading
        self._find_header_ahead = find_header_ahead
        self._on_waiting = on_waiting
        self._stands_for = members
        self._members = list(members)
        self.rank = self._members.index(links.me.rank)
        self.size = len(members)
        self.left = (self.rank - 1) % self.size
        self.right = (self.rank + 1) % self.size
        self._links = links
        self._world_ranks = links.world_ranks
        stands_for_others = any(len(others) > 1 for others in members.values())
        # Ranks on the host of the missing rank name it best, and first.
        self._patience_s = timeout_s + GRACE_S * stands_for_others
        self._deadline = heading.began_at + self._patience_s
        links.doing = heading.call
        links.timeout_s = timeout_s
        self._poll = select.poll()
        self._poll.register(links.wake, select.POLLIN)
        self._outgoing: dict[int, Outgoing] = {}
        self._incoming: dict[int, Incoming] = {}
        self._by_fd: dict[int, Outgoing | Incoming] = {}
        self._looks_at = time.monotonic() + SLICE_S
        """When to look again for peers that are waited for and have never connected."""
        if stands_for_others:
            # Others of its host wait for this rank meanwhile, and may have something to tell.
            for peer in links.connected:
                self._reach(peer)

    # --- what an algorithm says --------------------------------------------------------------

    def open(self, peer: int, payload_bytes: int, call: Call | None = None) -> None:
        """Begin to send to a peer: a header first, then so many bytes by `send`."""
        peer = self._members[peer]
        header = self._heading.write(payload_bytes, call)
        outgoing = self._outgoing.get(peer) or self._reach(peer)
        outgoing.owed += HEADER_BYTES + payload_bytes
        outgoing.queue.append(memoryview(header))

    def _reach(self, peer: int) -> Outgoing:
        deadline = Deadline(self._links.held, self._heading.began_at, self._patience_s)
        connection = self._links.outgoing(peer, deadline)
        outgoing = Outgoing(peer, connection)
        self._outgoing[peer] = outgoing
        self._by_fd[connection.fileno()] = outgoing
        self._poll.register(connection, select.POLLIN)
        return outgoing

    def send(self, peer: int, data: memoryview) -> None:
        """Send these bytes next; they must not change until they have left."""
        outgoing = self._outgoing[self._members[peer]]
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
        peer = self._members[peer]
        incoming = self._incoming.get(peer)
        if incoming is None:
            incoming = self._incoming[peer] = Incoming(peer)
        if incoming.connection is None:
            self._attach(incoming)
        return incoming

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
        expected = self._heading.write(payload_bytes, call)
        received = memoryview(bytearray(HEADER_BYTES + beyond))
        incoming.beyond = beyond
        incoming.judge = partial(self._heading.judge, incoming.peer, received, expected, call)
        return received

    # --- moving bytes ------------------------------------------------------------------------

    def run(self) -> None:
        """Move everything; raise Stopped when that cannot be done, KeyboardInterrupt on Ctrl-C."""
        for outgoing in self._outgoing.values():
            if outgoing.queue and not outgoing.is_blocked:
                self._push(outgoing)
        while self._is_waiting():
            now = time.monotonic()
            if now >= self._deadline and now >= self._extend(now):
                raise Stopped(self._overdue())
            if now >= self._looks_at:
                self._look_for_absent()
                if self._on_waiting is not None:
                    self._on_waiting(self._heading.call, self._find_late())
            wait_s = min(SLICE_S, self._deadline - now, max(0.0, self._looks_at - now))
            if not self._serve(wait_s):
                self._look_into_memory()

    def _extend(self, now: float) -> float:
        """Return the deadline, later by the time that ranks were in a debugger."""
        held, began_at = self._links.held, self._heading.began_at
        self._deadline = held.deadline_s(began_at, self._patience_s, now)
        return self._deadline

    def _serve(self, wait_s: float) -> bool:
        """Move what can be moved; return whether there was anything within so many seconds."""
        ready = self._poll.poll(1000 * wait_s)
        for fd, events in ready:
            end = self._by_fd.get(fd)
            if isinstance(end, Outgoing):
                self._serve_outgoing(end, events)
            elif end is not None:
                self._pull(end)
            else:
                self._links.listen_to_wake()
                self._attach_all()
        return bool(ready)

    def _is_waiting(self) -> bool:
        for incoming in self._incoming.values():
            if incoming.rest is not None:
                return True
        return any(outgoing.owed for outgoing in self._outgoing.values())

    def _overdue(self) -> Breakage:
        late = self._find_late()
        late = late or self._name(end.peer for end in self._outgoing.values() if end.owed)
        return self._links.overdue(late)

    def _look_into_memory(self) -> None:
        """Raise Stopped if a peer that is waited for waits for this rank, in a collective."""
        if self._find_header_ahead is None:
            return
        coming = [end.peer for end in self._incoming.values() if end.rest is not None]
        going = [end.peer for end in self._outgoing.values() if end.owed]
        for peer in (*coming, *going):
            header = self._find_header_ahead(peer)
            # What it sent before it went there has come by now.
            if header is not None and not self._serve(0.0):
                raise self._heading.mismatch(peer, header)

    def _find_late(self) -> list[int]:
        """Return the ranks of the cluster whose data has not come."""
        ends = self._incoming.values()
        return self._name(end.peer for end in ends if end.rest is not None)

    def _name(self, peers: Iterable[int]) -> list[int]:
        """Return the ranks of the cluster that these peers stand for."""
        return [self._world_ranks[rank] for peer in peers for rank in self._stands_for[peer]]

    def _attach_all(self) -> None:
        for incoming in self._incoming.values():
            if incoming.connection is None and incoming.rest is not None:
                self._attach(incoming)

    def _look_for_absent(self) -> None:
        """Make sure that whoever is waited for can be heard, should it leave or die.

        A peer that has never connected could do so without a trace, so that it is connected to.
        """
        self._looks_at = time.monotonic() + SLICE_S
        ends = self._incoming.values()
        absent = [end.peer for end in ends if end.rest is not None and end.connection is None]
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
            # Whatever comes now belongs to a later step, or the next operation.
            self._poll.unregister(connection)
            incoming.connection = None
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
