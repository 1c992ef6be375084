"""Heartbeats that a busy interpreter cannot delay: libzmq echoes them, Python does not.

They prove that a process lives, not that its rank moves on.
"""

import contextlib
import math
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

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


class _Beat(NamedTuple):
    answered_s: float
    """When the last question was asked that was answered; 0.0: none was."""
    last_s: float
    """The same, else when the first was asked, or since when silence counts again."""


class _Group:
    """Engines that are asked with one message: those of a relay, or one that has none."""

    def __init__(self, names: Sequence[bytes], beats: Mapping[bytes, _Beat], now_s: float) -> None:
        self.names, self.frame = names, b" ".join(names)
        self._since_s = now_s
        """An answer to an earlier question was one of others."""
        self._all = _Beat(0.0, 0.0)
        """Of all of them together; what is known of one may be later."""
        self._apart = {name: beats.get(name, _Beat(0.0, now_s)) for name in names}

    def take_all(self, asked_s: float) -> None:
        """Take in that all have answered what was asked then."""
        if max(self._since_s, self._all.answered_s) <= asked_s:  # an older one comes late
            self._all = _Beat(asked_s, max(asked_s, self._all.last_s))
            if self._apart:
                apart = self._apart.items()
                self._apart = {name: each for name, each in apart if max(each) > asked_s}

    def take(self, names: Iterable[bytes], asked_s: float) -> None:
        """Take in that those of these that belong to it have answered what was asked then."""
        for name in names:
            before = self.beat(name)
            if name in self.names and before.answered_s < asked_s:
                self._apart[name] = _Beat(asked_s, max(asked_s, before.last_s))

    def have_all_answered(self, asked_s: float) -> bool:
        """Return whether the last answer that came from all of them was one to this question."""
        return self._all.answered_s == asked_s

    def beat(self, name: bytes) -> _Beat:
        """Return what is known of an engine."""
        apart = self._apart.get(name)
        return self._all if apart is None else _Beat(*map(max, apart, self._all))

    def oldest_s(self) -> float:
        """Return the earliest of their last beats."""
        if not self._apart:
            return self._all.last_s
        return min(self.beat(each).last_s for each in self.names)

    def excuse(self, now_s: float) -> None:
        """Let their silence count from now."""
        self._all = self._all._replace(last_s=now_s)


class HeartbeatMonitor(Listener):
    """The coordinator's side: asks each engine for a beat, and knows when that was answered last.

    A beat brings back when it was asked for, and counts as of then: so nothing has to wake up for
    it, and it is read when someone wants to know. Engines that have a relay are asked through it,
    which says with the stamp alone that all of them have answered: while all are well a host costs
    as much as one of its engines.
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
        self._names: Sequence[bytes] = ()
        self._names_relays: Mapping[bytes, bytes] = {}
        """Who was asked last, and who had a relay then."""
        self._groups: dict[bytes, _Group] = {}
        """By the identity that the question goes to."""
        self._asked_s = math.nan
        """When that was."""
        self._group_of: dict[bytes, _Group] = {}
        """By the name of each engine."""

    def ask(self, names: Iterable[bytes]) -> None:
        """Ask these engines for a beat, which are all there are: others are forgotten."""
        now_s, names = monotonic(), tuple(names)
        stamp = _STAMP.pack(now_s)
        if names != self._names or self._relays != self._names_relays:
            self._sort(names, now_s)
        for identity, group in self._groups.items():
            # A relay that has just answered for all of them knows their names.
            are_known = identity in self._group_of or group.have_all_answered(self._asked_s)
            send_frames(self._socket, (identity, stamp, *(() if are_known else (group.frame,))))
        self._asked_s = now_s

    def _sort(self, names: Sequence[bytes], now_s: float) -> None:
        """Find out where the questions go to, which is seldom another place than before."""
        self._names, self._names_relays = names, dict(self._relays)
        sorted_names: dict[bytes, list[bytes]] = {}
        for name in names:
            sorted_names.setdefault(self._relays.get(name, name), []).append(name)
        beats = {name: self._group_of[name].beat(name) for name in names if name in self._group_of}
        before = self._groups
        self._groups = {
            identity: before[identity]
            if identity in before and before[identity].names == theirs
            else _Group(theirs, beats, now_s)
            for identity, theirs in sorted_names.items()
        }
        self._group_of = {name: group for group in self._groups.values() for name in group.names}

    def receive(self) -> None:
        """Take in the beats that have arrived."""
        while (arrived := receive_frames(self._socket, small=3)) is not None:
            head, _ = arrived
            group = self._groups.get(head[0])
            if group is None or len(head) not in (2, 3) or len(head[1]) != _STAMP.size:
                continue
            (asked_s,) = _STAMP.unpack(head[1])
            if not 0.0 < asked_s <= monotonic():
                continue
            if len(head) == 2:
                group.take_all(asked_s)
            else:  # a relay: it speaks for its own engines only
                group.take(head[2].split(), asked_s)

    def last_beat_s(self, identity: bytes) -> float:
        """Monotonic time of the last question that was answered, else of the first, else of now."""
        group = self._group_of.get(identity)
        return group.beat(identity).last_s if group is not None else monotonic()

    def answered_s(self, identity: bytes) -> float:
        """Monotonic time when the last question was asked that was answered; 0.0: none was."""
        group = self._group_of.get(identity)
        return group.beat(identity).answered_s if group is not None else 0.0

    def oldest_s(self) -> float:
        """Return the earliest of the last beats of all engines; infinity when none is asked."""
        return min((group.oldest_s() for group in self._groups.values()), default=math.inf)

    def excuse_silence(self) -> None:
        """Count again from now: it was this side that did not listen."""
        for group in self._groups.values():
            group.excuse(monotonic())
