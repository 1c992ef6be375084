"""Connections of simulated ranks to the coordinator: one for each rank, or a relay for each host.

What a relay and the coordinator send each other is real. Between the relay and its ranks, where a
real host has Unix sockets, there are calls: that hop takes no time of the coordinator's machine.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import zmq

from jupyter_dist.control.connection_events import CONNECTION_EVENTS, read_event
from jupyter_dist.control.dealer import dial, secure_client
from jupyter_dist.control.frames import receive_frames, send_frames
from jupyter_dist.control.ledger import Ledger, Sign, read_stamp
from jupyter_dist.control.relay.beat_relay import GATHER_S
from jupyter_dist.control.relay.doors import Home
from jupyter_dist.control.relay.engine_dealer import RankHome, open_line
from jupyter_dist.control.relay.envelope import Letter, pack, unpack
from jupyter_dist.control.router import notice_cuts
from jupyter_dist.control.sockets import Sockets
from jupyter_dist.protocol.codec import VERSION, Frame, encode, to_engine
from jupyter_dist.protocol.messages import Message, ToEngine

Obey = Callable[[ToEngine], None]
"""What a rank does with a message."""


class DialledLine:
    """A connection of a rank's own; used on the thread of the loop only."""

    def __init__(self, context: "zmq.Context[Any]", home: RankHome, obey: Obey) -> None:
        self._obey = obey
        self._dealer = open_line(context, home)
        self._fileno = self._dealer.fileno
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fileno, self._serve)

    def send(self, message: Message) -> None:
        """Say something."""
        self._dealer.send(message)

    def mend(self) -> None:
        """Send again what was lost with a connection that broke; to be called about each second."""
        self._serve()
        self._dealer.silence_s()
        self._serve()

    def close(self) -> None:
        """Leave."""
        self._loop.remove_reader(self._fileno)
        self._dealer.close(0)

    def _serve(self) -> None:
        for message, _ in self._dealer.receive():
            self._obey(message)


class RelayedLine:
    """A rank's end of what its host's relay carries."""

    def __init__(self, relay: "SimulatedRelay", identity: bytes, obey: Obey) -> None:
        self._relay, self._identity, self._obey = relay, identity, obey
        self._ledger = Ledger()
        relay.lines[identity] = self

    def send(self, message: Message) -> None:
        """Say something."""
        self._say(self._ledger.enter(encode(message)))

    def take(self, first: bytes, size_bytes: int, read: Callable[[], ToEngine]) -> None:
        """Take in a letter with this first frame; `read` gives the message in it."""
        stamp = read_stamp(first)
        if stamp is None:  # it is not known to the coordinator any more
            self._obey(read())
            return
        is_new, sign = self._ledger.take(stamp, size_bytes)
        assert sign is not Sign.LACKS
        if self._ledger.owes_word:
            self._say(self._ledger.word())
        if is_new:
            self._obey(read())

    def resume(self) -> None:
        """Send again what may have been lost with the relay's connection."""
        self._say(self._ledger.word(Sign.RESUMES))
        for frames in self._ledger.unacknowledged():
            self._say(frames)

    def mend(self) -> None:
        """Do nothing: the relay watches its connection, and resumes what was said over it."""

    def close(self) -> None:
        """Leave."""
        self._say(self._ledger.word(Sign.LEAVES))
        del self._relay.lines[self._identity]

    def _say(self, frames: Sequence[Frame]) -> None:
        first, body = frames
        self._relay.say(Letter([self._identity], [bytes(first)], bytes(body)))


class SimulatedRelay:
    """A host's two connections with the coordinator; used on the thread of the loop only."""

    def __init__(self, context: "zmq.Context[Any]", home: Home) -> None:
        self.lines: dict[bytes, RelayedLine] = {}
        """Of the ranks that live, by the names of their engines."""
        self._letters: list[Letter] = []
        """What they have said since the last envelope."""
        self._asked: list[bytes] = []
        """Of whom the coordinator has asked whether they live."""
        self.stands = asyncio.Event()
        """Its first connection does."""
        self._decoder = to_engine()
        self._loop = asyncio.get_running_loop()
        sockets = self._sockets = Sockets(self, context)
        self._uplink, self._beats = (sockets.make(zmq.DEALER) for _ in range(2))
        self._monitor = sockets.monitor(self._uplink, CONNECTION_EVENTS)
        for socket, address in ((self._uplink, home.address), (self._beats, home.beats_address)):
            secure_client(socket, home.credentials)
            socket.identity = home.identity
            notice_cuts(socket)
            dial(socket, address)
        serving = (
            (self._uplink, self._carry),
            (self._monitor, self._take_events),
            (self._beats, self._answer_beats),
        )
        for socket, serve in serving:
            self._loop.add_reader(int(socket.getsockopt(zmq.FD)), serve)
            serve()  # libzmq wakes only a reader that has found nothing

    def say(self, letter: Letter) -> None:
        """Send a letter soon, together with what else is said until then."""
        self._letters.append(letter)
        if len(self._letters) == 1:
            self._loop.call_soon(self._carry)

    def _carry(self) -> None:
        """Hand out what has come, and send what is said to it: sending may hide that more came."""
        while True:
            while (arrived := receive_frames(self._uplink, small=2)) is not None:
                for letter, _ in unpack(*arrived):
                    self._hand_out(letter)
            if not self._letters:
                return
            letters, self._letters = self._letters, []
            # As a relay does that waits for nothing: the others come while the first is sent.
            for envelope in (letters[:1], letters[1:]):
                if envelope:
                    send_frames(self._uplink, pack(envelope))

    def _hand_out(self, letter: Letter) -> None:
        read = cache(lambda: self._decoder.decode([VERSION, letter.body]))
        for name, first in zip(letter.names, letter.firsts, strict=True):
            if (line := self.lines.get(name)) is not None:
                line.take(first, len(letter.body), read)

    def _take_events(self) -> None:
        while (event := read_event(self._monitor)) is not None:
            if event.stands and self.stands.is_set():
                for line in self.lines.values():
                    line.resume()
            elif event.stands:
                self.stands.set()

    def _answer_beats(self) -> None:
        while (arrived := receive_frames(self._beats, small=2)) is not None:
            stamp, *names = arrived[0]
            if names:
                self._asked = names[0].split()
            self._loop.call_later(GATHER_S, self._say_who_lives, stamp)

    def _say_who_lives(self, stamp: bytes) -> None:
        living = [name for name in self._asked if name in self.lines]
        answer = (stamp,) if living == self._asked else (stamp, b" ".join(living))
        send_frames(self._beats, answer)
        self._answer_beats()  # sending may hide that more came
