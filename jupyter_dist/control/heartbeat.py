"""Heartbeats that a busy interpreter cannot delay: libzmq echoes them, Python does not.

They prove that a process lives, not that its rank moves on.
"""

import contextlib
import struct
import threading
from collections.abc import Iterable
from time import monotonic
from typing import Any

import zmq

from jupyter_dist.control.dealer import dial, secure_client
from jupyter_dist.control.router import UNANSWERED_MS, Listener
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
    socket.identity = identity
    socket.setsockopt(zmq.TCP_MAXRT, UNANSWERED_MS)
    dial(socket, address)

    def echo() -> None:
        with contextlib.suppress(zmq.ContextTerminated, zmq.ZMQError):
            zmq.proxy(socket, socket)

    threading.Thread(target=echo, name="heartbeat-echo", daemon=True).start()


class HeartbeatMonitor(Listener):
    """The coordinator's side: asks each engine for a beat and remembers when the last one came."""

    def __init__(self, context: "zmq.Context[Any]", domain: str, key: KeyPair) -> None:
        super().__init__(context, domain, key)
        self._socket.setsockopt(zmq.TCP_MAXRT, UNANSWERED_MS)
        self._last_beat_s: dict[bytes, float] = {}
        self._answered_s: dict[bytes, float] = {}

    def ask(self, identities: Iterable[bytes]) -> None:
        """Ask these engines for a beat."""
        stamp = _STAMP.pack(monotonic())
        for identity in identities:
            self._last_beat_s.setdefault(identity, monotonic())
            with contextlib.suppress(zmq.Again):
                self._socket.send_multipart([identity, stamp], zmq.NOBLOCK)

    def receive(self) -> None:
        """Take in the beats that have arrived."""
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) == 2 and len(frames[1]) == _STAMP.size:
                self._last_beat_s[frames[0]] = monotonic()
                self._answered_s[frames[0]] = _STAMP.unpack(frames[1])[0]

    def last_beat_s(self, identity: bytes) -> float:
        """Monotonic time of the last beat: of the first question without one, or of now."""
        return self._last_beat_s.get(identity, monotonic())

    def answered_s(self, identity: bytes) -> float:
        """Monotonic time when the last question was asked that was answered; 0.0: none was."""
        return self._answered_s.get(identity, 0.0)

    def excuse_silence(self) -> None:
        """Count again from now: it was this side that did not listen."""
        self._last_beat_s = dict.fromkeys(self._last_beat_s, monotonic())
