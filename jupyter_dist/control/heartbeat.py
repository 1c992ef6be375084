"""Heartbeats that a busy interpreter cannot delay: libzmq echoes them, Python does not.

They prove that a process lives, not that its rank moves on.
"""

import contextlib
import struct
import threading
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

import zmq

from jupyter_dist.control.dealer import dial, secure_client, try_again_soon
from jupyter_dist.control.frames import receive_frames, send_frames
from jupyter_dist.control.router import Listener, notice_cuts
from jupyter_dist.control.thread_name import name_own_thread
from jupyter_dist.model.ranks.beat_threads import ECHO_THREAD
from jupyter_dist.protocol.credentials import Credentials, KeyPair

_STAMP = struct.Struct("<d")


def echo_heartbeats(
    context: "zmq.Context[Any]", address: str, credentials: Credentials | None, identity: bytes
) -> None:
    """Send beats back to the coordinator, or to a relay, from now on, until the context ends.

    That is the engine's side: a thread that sits inside libzmq without the GIL. A relay asks for no
    credentials. Raises RuntimeError where there can be no more threads.
    """
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, identity)
    if credentials is not None:
        secure_client(socket, credentials)
        notice_cuts(socket)
    else:
        try_again_soon(socket)
    dial(socket, address)

    def echo() -> None:
        name_own_thread(ECHO_THREAD)
        with contextlib.suppress(zmq.ContextTerminated, zmq.ZMQError):
            zmq.proxy(socket, socket)
        socket.close(0)

    threading.Thread(target=echo, name="heartbeat-echo", daemon=True).start()


class HeartbeatMonitor(Listener):
    """The coordinator's side: asks each engine for a beat, and knows when that was answered last.

    A beat brings back when it was asked for, and counts as of then: so nothing has to wake up for
    it, and it is read when someone wants to know. Engines that have a relay are asked through it.
    """

    def __init__(
        self,
        context: "zmq.Context[Any]",
        domain: str,
        key: KeyPair,
        relays: Mapping[bytes, bytes],
    ) -> None:
        """`relays` has the relay of each engine that has one, now."""
        super().__init__(context, domain, key)
        self._relays = relays
        notice_cuts(self._socket)
        self._last_beat_s: dict[bytes, float] = {}
        self._answered_s: dict[bytes, float] = {}

    def ask(self, identities: Iterable[bytes]) -> None:
        """Ask these engines for a beat."""
        now_s, relays = monotonic(), self._relays
        stamp = _STAMP.pack(now_s)
        by_relay: dict[bytes, list[bytes]] = {}
        for identity in identities:
            self._last_beat_s.setdefault(identity, now_s)
            if identity in relays:
                by_relay.setdefault(relays[identity], []).append(identity)
            else:
                send_frames(self._socket, (identity, stamp))
        for relay, names in by_relay.items():
            send_frames(self._socket, (relay, stamp, b" ".join(names)))

    def receive(self) -> None:
        """Take in the beats that have arrived."""
        while (arrived := receive_frames(self._socket, small=3)) is not None:
            head, _ = arrived
            if len(head) == 2 and len(head[1]) == _STAMP.size:
                self._take(head[0], _STAMP.unpack(head[1])[0])
            elif len(head) == 3 and len(head[1]) == _STAMP.size:
                relay, (asked_s,), names = head[0], _STAMP.unpack(head[1]), head[2].split()
                for name in names:
                    if self._relays.get(name) == relay:  # it speaks for its own ranks only
                        self._take(name, asked_s)

    def _take(self, identity: bytes, asked_s: float) -> None:
        if self._answered_s.get(identity, 0.0) < asked_s <= monotonic():  # an older one comes late
            self._answered_s[identity] = asked_s
            self._last_beat_s[identity] = max(asked_s, self._last_beat_s.get(identity, 0.0))

    def last_beat_s(self, identity: bytes) -> float:
        """Monotonic time of the last question that was answered, else of the first, else of now."""
        return self._last_beat_s.get(identity, monotonic())

    def answered_s(self, identity: bytes) -> float:
        """Monotonic time when the last question was asked that was answered; 0.0: none was."""
        return self._answered_s.get(identity, 0.0)

    def excuse_silence(self) -> None:
        """Count again from now: it was this side that did not listen."""
        self._last_beat_s = dict.fromkeys(self._last_beat_s, monotonic())
