"""Heartbeats that a busy interpreter cannot delay: libzmq echoes them, Python does not.

They prove that a process lives, not that its rank moves on.
"""

import contextlib
import math
import struct
import threading
from collections.abc import Iterable
from time import monotonic
from typing import Any

import zmq

from jupyter_dist.control.dealer import dial, secure_client
from jupyter_dist.control.frames import receive_frames, send_frames
from jupyter_dist.control.router import Listener, notice_cuts
from jupyter_dist.protocol.credentials import Credentials, KeyPair

_STAMP = struct.Struct("<d")


def echo_heartbeats(
    context: "zmq.Context[Any]", address: str, credentials: Credentials, identity: bytes
) -> None:
    """Send beats back to the coordinator from now on, until the context ends.

    That is the engine's side: a thread that sits inside libzmq without the GIL.
    """
    socket = context.socket(zmq.DEALER)
    secure_client(socket, credentials)
    socket.setsockopt(zmq.IDENTITY, identity)
    notice_cuts(socket)
    dial(socket, address)

    def echo() -> None:
        with contextlib.suppress(zmq.ContextTerminated, zmq.ZMQError):
            zmq.proxy(socket, socket)

    threading.Thread(target=echo, name="heartbeat-echo", daemon=True).start()


class HeartbeatMonitor(Listener):
    """The coordinator's side: asks each engine for a beat, and knows when that was answered last.

    A beat brings back when it was asked for, and counts as of then: so nothing has to wake up for
    it, and it is read when someone wants to know.
    """

    def __init__(self, context: "zmq.Context[Any]", domain: str, key: KeyPair) -> None:
        super().__init__(context, domain, key)
        notice_cuts(self._socket)
        self._last_beat_s: dict[bytes, float] = {}
        self._answered_s: dict[bytes, float] = {}

    def ask(self, identities: Iterable[bytes]) -> None:
        """Ask these engines for a beat."""
        stamp = _STAMP.pack(monotonic())
        for identity in identities:
            self._last_beat_s.setdefault(identity, monotonic())
            send_frames(self._socket, (identity, stamp))

    def receive(self) -> None:
        """Take in the beats that have arrived."""
        while (arrived := receive_frames(self._socket, small=2)) is not None:
            head, _ = arrived
            if len(head) == 2 and len(head[1]) == _STAMP.size:
                self._take(head[0], _STAMP.unpack(head[1])[0])

    def _take(self, identity: bytes, asked_s: float) -> None:
        self._answered_s[identity] = asked_s
        if self._last_beat_s.get(identity, -math.inf) < asked_s <= monotonic():
            self._last_beat_s[identity] = asked_s

    def last_beat_s(self, identity: bytes) -> float:
        """Monotonic time of the last question that was answered, else of the first, else of now."""
        return self._last_beat_s.get(identity, monotonic())

    def answered_s(self, identity: bytes) -> float:
        """Monotonic time when the last question was asked that was answered; 0.0: none was."""
        return self._answered_s.get(identity, 0.0)

    def excuse_silence(self) -> None:
        """Count again from now: it was this side that did not listen."""
        self._last_beat_s = dict.fromkeys(self._last_beat_s, monotonic())
