"""Heartbeats of a host's ranks: one question to the host, and one answer for all that live."""

import math
import socket
from collections.abc import Sequence
from time import monotonic
from typing import Any

import zmq

from jupyter_dist.control.dealer import dial, secure_client
from jupyter_dist.control.frames import receive_frames, send_frames
from jupyter_dist.control.relay.doors import Home, let_in
from jupyter_dist.control.router import notice_cuts
from jupyter_dist.control.sockets import Sockets

GATHER_S = 0.1
"""So long the answers of ranks wait for those of the others; then they go without them."""


class BeatRelay:
    """Asks the ranks that the coordinator asks for, and says which of them have answered.

    A question is `[stamp][names of engines]`, and so is an answer. Each rank gets the stamp alone,
    and libzmq sends it back there (heartbeat.py): so this can make no rank look alive.
    """

    def __init__(self, sockets: Sockets, door: socket.socket, home: Home) -> None:
        """Take in ranks that come to this door, and dial the coordinator."""
        ranks = self.ranks = sockets.make(zmq.ROUTER)
        ranks.setsockopt(zmq.ROUTER_HANDOVER, 1)
        let_in(ranks, door)
        uplink = self.uplink = sockets.make(zmq.DEALER)
        secure_client(uplink, home.credentials)
        uplink.identity = home.identity
        notice_cuts(uplink)
        dial(uplink, home.beats_address)
        self._stamp = b""
        """Of the last question."""
        self._missing: set[bytes] = set()
        """Who has not answered it."""
        self._answered: list[bytes] = []
        """Who has, and was not told of yet."""
        self.due_s = math.inf
        """When that is told, whoever is missing (monotonic)."""

    def carry(self, ready: Sequence[Any]) -> None:
        """Carry what has come from these sockets."""
        if self.uplink in ready:
            self._ask()
        if self.ranks in ready:
            self._gather()
        if self._answered and (not self._missing or monotonic() >= self.due_s):
            self._answer()

    def _ask(self) -> None:
        while (arrived := receive_frames(self.uplink, small=2)) is not None:
            if len(arrived[0]) == 2:
                self._answer()
                self._stamp, names = arrived[0]
                self._missing = set(names.split())
                self.due_s = monotonic() + GATHER_S
                for name in self._missing:
                    send_frames(self.ranks, (name, self._stamp))

    def _gather(self) -> None:
        while (arrived := receive_frames(self.ranks, small=2)) is not None:
            name, *rest = arrived[0]
            if rest == [self._stamp]:
                self._missing.discard(name)
                self._answered.append(name)
            elif rest:  # of a question before, which it may have been too slow for
                send_frames(self.uplink, (rest[0], name))

    def _answer(self) -> None:
        """Tell of those that have answered until now."""
        if self._answered:
            send_frames(self.uplink, (self._stamp, b" ".join(self._answered)))
        self._answered, self.due_s = [], math.inf
