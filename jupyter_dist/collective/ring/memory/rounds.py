"""Operations in shared memory: each is some rounds, in which all ranks write, meet and read."""

import select
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jupyter_dist.collective.calls.call import Array, OnWaiting
from jupyter_dist.collective.ring.connections import GRACE_S, SLICE_S, Connections
from jupyter_dist.collective.ring.heading import Header, Heading
from jupyter_dist.collective.ring.memory.room import Room
from jupyter_dist.collective.ring.stopped import Certainty, Stopped
from jupyter_dist.collective.ring.wire import HEADER_BYTES

Finish = Callable[[Array], None]
"""Completes what all have written, given in a row for each rank."""


class Rounds:
    """The rounds of one communicator's ranks on a host; its connections tell who leaves or dies."""

    def __init__(self, room: Room, links: Connections, members: Sequence[int]) -> None:
        self.rank, self.size = room.rank, room.size
        self._members = members
        """Ranks of the communicator, in the order in which the room counts them."""
        self._room = room
        self._links = links
        self._polls = [select.poll(), select.poll()]
        for poll, bell in zip(self._polls, room.bells, strict=True):
            poll.register(bell, select.POLLIN)
            poll.register(links.wake, select.POLLIN)
        self._peers: dict[int, int] = {}
        """By descriptor of the connection to it."""
        self._heading: Heading
        self._on_waiting: OnWaiting | None = None
        self._deadline = self._patience_s = 0.0
        self._is_first = True

    def begin(self, heading: Heading, timeout_s: float, on_waiting: OnWaiting | None) -> None:
        """Begin a call, whose algorithm has at least one round."""
        self._heading = heading
        self._on_waiting = on_waiting
        self._patience_s = timeout_s
        self._deadline = heading.began_at + timeout_s
        self._is_first = True
        self._links.doing = heading.call
        self._links.timeout_s = timeout_s

    def capacity(self, dtype: np.dtype[Any]) -> int:
        """Return how many elements of this type a rank can write in a round."""
        return self._room.capacity(dtype)

    def mine(self, dtype: np.dtype[Any]) -> Array:
        """Return where this rank writes for the next time that all meet."""
        slot: Array = self._room.slots(dtype, self._room.number + 1)[self.rank]
        return slot

    def meet(self, dtype: np.dtype[Any], finish: Finish | None = None) -> Array:
        """Wait until all have written; return what, in a row for each rank, until they meet again.

        The last one to come does `finish` on that first, for all. Raises Stopped when they cannot
        all come, or some are in another call.
        """
        room = self._room
        if self._is_first:
            room.write_header(self._heading.write(0))
        if not room.arrive(partial(self._finish, dtype, finish)):
            self._wait()
        if self._is_first:
            self._is_first = False
            # Who is missing from now on waits for others itself, and knows better whom to name.
            self._patience_s += 2 * GRACE_S
            self._deadline += 2 * GRACE_S
            if not room.is_agreed:
                self._judge()
        return room.slots(dtype, room.number)

    def _finish(self, dtype: np.dtype[Any], finish: Finish | None) -> None:
        """Compare all headers once for all ranks; then finish, unless a rank is in another call."""
        if self._is_first:
            try:
                self._judge()
            except Stopped:
                return  # it is found again by each rank, this one too
            if not self._heading.other_site:
                self._room.note_agreement()
        if finish is not None:
            finish(self._room.slots(dtype, self._room.number))

    def find_header_ahead(self, peer: int) -> Header | None:
        """Return the header of a peer that waits for this rank in a round; else None."""
        if peer not in self._members:
            return None
        return self._room.header_ahead(self._members.index(peer))

    def _judge(self) -> None:
        headers, expected = self._room.headers(), self._heading.write(0)
        if headers == expected * self.size:
            return
        starts = range(0, len(headers), HEADER_BYTES)
        each = (bytes(headers[start : start + HEADER_BYTES]) for start in starts)
        self._heading.judge_all(dict(zip(self._members, each, strict=True)), expected)

    def _wait(self) -> None:
        room, links = self._room, self._links
        self._listen_to_peers()
        poll = self._polls[room.number & 1]
        while True:
            wait_s = min(SLICE_S, max(0.0, self._deadline - time.monotonic()))
            events = [fd for fd, _events in poll.poll(1000 * wait_s)]
            # Asked first, whatever has come: who leaves after the bell has rung is through.
            if events and room.has_rung():
                return
            if not events:
                self._look_around()
            for fd in events:
                if fd in self._peers:
                    self._hear(self._peers[fd])
                else:
                    links.listen_to_wake()

    def _listen_to_peers(self) -> None:
        connected = self._links.connected
        if len(connected) == len(self._peers):
            return
        self._peers = {connection.fileno(): peer for peer, connection in connected.items()}
        for poll in self._polls:
            for fd in self._peers:
                poll.register(fd, select.POLLIN)

    def _hear(self, peer: int) -> None:
        """Raise Stopped when a peer has left; it cannot have been through."""
        try:
            self._links.hear(peer)
        except OSError:
            raise self._links.closed_by(peer, Certainty.SEEN) from None

    def _look_around(self) -> None:
        world_ranks = self._links.world_ranks
        late = [world_ranks[self._members[rank]] for rank in self._room.find_late()]
        now = time.monotonic()
        if now >= self._deadline:  # later by the time that ranks were in a debugger
            began_at, held = self._heading.began_at, self._links.held
            self._deadline = held.deadline_s(began_at, self._patience_s, now)
        if now >= self._deadline:
            raise Stopped(self._links.overdue(late))
        if self._on_waiting is not None:
            self._on_waiting(self._heading.call, late)
