"""The relay itself: a loop that packs what ranks say, and unpacks what they are told.

It numbers nothing and keeps nothing: each rank and the coordinator number what they say to each
other (ledger.py), so whatever a relay loses when it ends is sent again over another way.
"""

import math
from collections.abc import Sequence
from time import monotonic
from typing import Any

import zmq
from zmq.backend import zmq_poll

from jupyter_dist.control.connection_events import CONNECTION_EVENTS, read_event
from jupyter_dist.control.dealer import dial, secure_client
from jupyter_dist.control.frames import receive_frames, send_frames, size_of
from jupyter_dist.control.ledger import Sign, bare_sign
from jupyter_dist.control.relay.beat_relay import BeatRelay
from jupyter_dist.control.relay.doors import Doors, Home, let_in
from jupyter_dist.control.relay.envelope import Letter, pack, unpack
from jupyter_dist.control.router import notice_cuts
from jupyter_dist.control.sockets import Sockets
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.protocol.codec import Frame

ENVELOPE_BYTES = 256 << 10
"""An envelope is closed once so much is in it: what one rank says waits for no more of others."""
_MOST_UNDER_WAY = 8
"""So many envelopes wait for the network; then ranks are not read, and each keeps what it says.
They are read in turn, so an error waits behind these envelopes, and not behind all output."""
_MOST_READ_AHEAD = 8
"""Messages of one rank that libzmq reads before they are wanted."""
_READABLE, _WRITABLE = int(zmq.POLLIN), int(zmq.POLLOUT)


class Relay:
    """One connection to the coordinator for many ranks, and one for beats; of one thread only."""

    def __init__(self, context: "zmq.Context[Any]", doors: Doors, home: Home) -> None:
        """Take in ranks that come to these doors, which are open already; they are closed."""
        sockets = self._sockets = Sockets(self, context)
        self._beats = BeatRelay(sockets, doors.beats, home)
        ranks = self._ranks = sockets.make(zmq.ROUTER)
        ranks.setsockopt(zmq.ROUTER_HANDOVER, 1)
        ranks.setsockopt(zmq.SNDHWM, 0)
        ranks.setsockopt(zmq.RCVHWM, _MOST_READ_AHEAD)
        let_in(ranks, doors.messages)
        uplink = self._uplink = sockets.make(zmq.DEALER)
        secure_client(uplink, home.credentials)
        uplink.identity = home.identity
        notice_cuts(uplink)
        uplink.setsockopt(zmq.SNDHWM, _MOST_UNDER_WAY)
        uplink.setsockopt(zmq.RCVHWM, 0)
        self._monitor = sockets.monitor(uplink, CONNECTION_EVENTS)
        dial(uplink, home.address)
        self._is_cut = True
        self._alive_interval_s, self._alive_s = home.alive_interval_s, 0.0
        """When ranks are told next that this relay lives."""
        self._known: set[bytes] = set()
        """Ranks that have said something."""

    def wait(self, timeout_s: float = math.inf) -> Sequence[Any]:
        """Return which sockets have something; ranks are asked only where there is room for it."""
        beats = self._beats
        rest_s = min(beats.due_s, self._alive_s) - monotonic()
        timeout_s = min(timeout_s, max(0.0, rest_s))
        wanted = [(each, _READABLE) for each in (self._uplink, self._monitor, beats.uplink)]
        if self._has_room:
            wanted.append((self._ranks, _READABLE))
        else:
            wanted[0] = (self._uplink, _READABLE | _WRITABLE)
        return [source for source, _ in zmq_poll(wanted, math.ceil(timeout_s * 1000))]

    def carry(self, ready: Sequence[Any]) -> None:
        """Carry what has come from these sockets."""
        self._beats.carry(ready)
        if self._monitor in ready:
            self._take_events()
        if self._uplink in ready:  # first: an abort must not wait for what ranks say
            self._carry_down()
        if self._ranks in ready:
            self._carry_up()
        if (now_s := monotonic()) >= self._alive_s:
            self._alive_s = now_s + self._alive_interval_s
            self._tell_ranks(Sign.CONFIRMS)

    def close(self) -> None:
        """Close all sockets."""
        self._sockets.close()

    @property
    def _has_room(self) -> bool:
        return bool(int(self._uplink.getsockopt(zmq.EVENTS)) & _WRITABLE)

    def _carry_up(self) -> None:
        """Send what ranks have said until now in one envelope."""
        letters: list[Letter] = []
        buffers: list[Frame] = []
        size_bytes = 0
        while size_bytes < ENVELOPE_BYTES:
            arrived = receive_frames(self._ranks, small=3)
            if arrived is None:
                break
            head, more = arrived
            if len(head) == 3:
                name, first, body = head
                if name not in self._known:
                    self._meet(name)
                letters.append(Letter([name], [first], body, len(more)))
                buffers += more
                size_bytes += size_of(head, more)
        if letters:
            send_frames(self._uplink, pack(letters, buffers), copy=not buffers)

    def _carry_down(self) -> None:
        """Hand out what the coordinator has said."""
        while (arrived := receive_frames(self._uplink, small=2)) is not None:
            try:
                for letter, buffers in unpack(*arrived):
                    for name, first in zip(letter.names, letter.firsts, strict=True):
                        frames = (name, first, letter.body, *buffers)
                        send_frames(self._ranks, frames, copy=not buffers)
            except MalformedMessage:  # of another version: its ranks are refused as well
                continue

    def _meet(self, name: bytes) -> None:
        """Take in a rank; one that comes during a cut has to know of that."""
        self._known.add(name)
        if self._is_cut:
            send_frames(self._ranks, (name, *bare_sign(Sign.CUT)))

    def _take_events(self) -> None:
        """Tell ranks when the connection is cut, and when there is another one.

        What was under way is lost then; they and the coordinator know what that was.
        """
        while (event := read_event(self._monitor)) is not None:
            self._is_cut = not event.stands
            self._tell_ranks(Sign.MENDED if event.stands else Sign.CUT)

    def _tell_ranks(self, sign: Sign) -> None:
        frames = bare_sign(sign)
        for name in self._known:
            send_frames(self._ranks, (name, *frames))
