"""The coordinator's end of the control channel to ranks: some speak through their host's relay."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import zmq

from jupyter_dist.control.frames import receive_frames, send_frames
from jupyter_dist.control.relay.envelope import Letter, is_relay, pack, unpack
from jupyter_dist.control.router import Received, Router
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.protocol.codec import Frame, encode, from_engine
from jupyter_dist.protocol.credentials import KeyPair
from jupyter_dist.protocol.messages import Message, ToCoordinator


class EngineRouter(Router[ToCoordinator]):
    """A Router whose peers are engines, wherever their connections come from.

    A relay speaks for the engines that were given to it, and for no other: its identity is a secret
    of its host. An engine that has spoken for itself once has left its relay for ever, and what
    that still brings of it is old.
    """

    def __init__(self, context: "zmq.Context[Any]", domain: str, key: KeyPair) -> None:
        super().__init__(context, domain, key, from_engine(), survives_breaks=True)
        self.relays: dict[bytes, bytes] = {}
        """The relay of each engine that has one."""
        self._has_relays = False
        """Some have had one, and the relay may still be there."""

    def give_to_relay(self, relay: str, engines: Iterable[str]) -> None:
        """Let these engines, which are about to start, speak through this relay."""
        self.relays.update((engine.encode(), relay.encode()) for engine in engines)
        self._has_relays, self._send = True, self._send_by_relay

    def send_to_all(self, identities: Sequence[bytes], message: Message) -> None:
        """Send one message to several peers; it is encoded once, and goes to each relay once."""
        if not self._has_relays:
            super().send_to_all(identities, message)
            return
        frames = encode(message)
        by_relay: dict[bytes, Letter] = {}
        for identity in identities:
            ledger = self._ledgers.get(identity)
            stamped = frames if ledger is None else ledger.enter(frames)
            relay = self.relays.get(identity)
            if relay is None:
                send_frames(self._socket, (identity, *stamped))
                continue
            letter = by_relay.get(relay)
            if letter is None:
                letter = by_relay[relay] = Letter([], [], bytes(frames[1]))
            letter.names.append(identity)
            letter.firsts.append(bytes(stamped[0]))
        for relay, letter in by_relay.items():
            send_frames(self._socket, (relay, *pack([letter])))

    def receive(self, limit: int = 200) -> Iterator[Received]:
        """Yield what has arrived, at most `limit` messages or envelopes, without waiting."""
        return self._receive_all(limit) if self._has_relays else super().receive(limit)

    def _receive_all(self, limit: int) -> Iterator[Received]:
        for _ in range(limit):
            arrived = receive_frames(self._socket, small=3)
            if arrived is None:
                return
            (identity, *head), buffers = arrived
            for name, own_head, own_buffers in self._unpack(identity, head, buffers):
                if (received := self._open(name, own_head, own_buffers)) is not None:
                    yield received

    def _unpack(
        self, identity: bytes, head: list[bytes], buffers: list[Frame]
    ) -> Iterator[tuple[bytes, list[bytes], list[Frame]]]:
        """Yield messages with the engines that they come from."""
        if not is_relay(identity):
            self.relays.pop(identity, None)
            yield identity, head, buffers
            return
        with suppress(MalformedMessage):  # of who has the secret of a relay, and is none
            for letter, own in unpack(head, buffers):
                for name, first in zip(letter.names, letter.firsts, strict=True):
                    if self.relays.get(name) == identity:
                        yield name, [first, letter.body], own

    def _send_by_relay(self, frames: Sequence[Frame], *, copy: bool = True) -> None:
        identity, first, body, *buffers = frames
        name = bytes(identity)
        relay = self.relays.get(name)
        if relay is not None:
            letter = Letter([name], [bytes(first)], bytes(body), len(buffers))
            frames = (relay, *pack([letter], buffers))
        send_frames(self._socket, frames, copy=copy)
