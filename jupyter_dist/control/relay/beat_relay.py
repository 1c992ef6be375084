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

GATHER_S = 0.05
"""After a question answers are read once, and not as each comes: that would wake the relay for
each rank. For those that are missing then it looks again, each time after twice as long.
"""


class BeatRelay:
    """Asks the ranks that the coordinator asks for, and says which of them have answered.

    A question is `[stamp][names of engines]`, and so is an answer. The stamp alone asks the same
    engines as before, and answers that all of them have answered. Each rank gets the stamp alone,
    and libzmq sends it back there (heartbeat.py): so this can make no rank look alive.
    """

    def __init__(self, sockets: Sockets, door: socket.socket, home: Home) -> None:
        """Take in ranks that come to this door, and dial the coordinator."""
        ranks = self._ranks = sockets.make(zmq.ROUTER)
        ranks.setsockopt(zmq.ROUTER_HANDOVER, 1)
        let_in(ranks, door)
        uplink = self.uplink = sockets.make(zmq.DEALER)
        secure_client(uplink, home.credentials)
        uplink.identity = home.identity
        notice_cuts(uplink)
        dial(uplink, home.beats_address)
        self._stamp, self._asked_s = b"", 0.0
        """Of the last question."""
        self._asked: frozenset[bytes] = frozenset()
        self._missing: set[bytes] = set()
        """Whom that was put to, and who has not answered it."""
        self.due_s = math.inf
        """When answers are read next (monotonic); no socket is looked at for them before."""

    def carry(self, ready: Sequence[Any]) -> None:
        """Carry what has come, given the sockets that have something."""
        if self.uplink in ready:
            self._ask()
        if monotonic() >= self.due_s:
            self._answer()

    def _ask(self) -> None:
        while (arrived := receive_frames(self.uplink, small=2)) is not None:
            self._answer()
            self._stamp, *names = arrived[0]
            if names:
                self._asked = frozenset(names[0].split())
            elif not self._asked:  # this process knows no one yet
                send_frames(self.uplink, (self._stamp, b""))
            self._missing = set(self._asked)
            self._asked_s = monotonic()
            self.due_s = self._asked_s + GATHER_S if self._missing else math.inf
            for name in self._missing:
                send_frames(self._ranks, (name, self._stamp))

    def _answer(self) -> None:
        """Tell who has answered until now, and to which question."""
        answered: dict[bytes, list[bytes]] = {}
        while (arrived := receive_frames(self._ranks, small=2)) is not None:
            name, *stamp = arrived[0]
            if stamp:
                answered.setdefault(stamp[0], []).append(name)
        for asked, names in answered.items():
            is_all = asked == self._stamp and self._asked.issubset(names)
            send_frames(self.uplink, (asked,) if is_all else (asked, b" ".join(names)))
        self._missing.difference_update(answered.get(self._stamp, ()))
        now_s = monotonic()
        self.due_s = now_s + (now_s - self._asked_s) if self._missing else math.inf
