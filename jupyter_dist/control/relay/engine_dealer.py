"""A rank's end of the control channel: its own connection, or its host's relay while that moves."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import zmq

from jupyter_dist.control.connection_events import CONNECTION_EVENTS, ConnectionEvent
from jupyter_dist.control.dealer import Dealer
from jupyter_dist.control.heartbeat import echo_heartbeats
from jupyter_dist.control.ledger import Ledger
from jupyter_dist.protocol.births import beats_path
from jupyter_dist.protocol.codec import Frame, to_engine
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.protocol.messages import ToEngine

_LONGEST_PAUSE_S = 1.0
_MISSED = 3
"""After so many signs of life that did not come ranks leave their relay.

libzmq's own pings would not tell: they wait behind what is said to a relay that reads nothing.
"""
LOST_AFTER_S = 10.0
"""A silence after which ranks are lost, where nothing else is said."""
LONGEST_HANDSHAKE_MS = 30_000
"""With the coordinator, which may have many at once; libzmq's own."""


class RankHome(NamedTuple):
    """Where the coordinator is for a rank, and how that proves itself there."""

    address: str
    beats_address: str
    credentials: Credentials
    identity: bytes
    relay: str
    """Path of its host's relay; empty: it speaks through none."""
    lost_after_s: float = LOST_AFTER_S


def alive_interval_s(lost_after_s: float) -> float:
    """Return how often a relay says that it lives, in seconds.

    A rank that leaves it has to answer heartbeats itself well before it counts as lost.
    """
    return min(_LONGEST_PAUSE_S, lost_after_s / 10)


class EngineDealer(Dealer[ToEngine]):
    """A Dealer that asks the coordinator for no signs of life: the heartbeats show those.

    Of pings libzmq would keep a timer for each rank, and walk through all with each message; that
    a connection is cut the kernel notices.
    """

    look_interval_s = math.inf
    """How often its owner has to ask for `silence_s`, at least."""

    def __init__(
        self,
        address: str,
        credentials: Credentials | None,
        identity: bytes,
        context: "zmq.Context[Any]",
    ) -> None:
        super().__init__(address, credentials, to_engine(), identity, context)

    def _dial(self) -> None:
        self._connect()


class RelayedDealer(EngineDealer):
    """One that speaks through a relay; it leaves that for good when it is gone, or silent.

    Before its owner asks for `silence_s` it has to receive what has come.
    """

    _events = CONNECTION_EVENTS | zmq.EVENT_CONNECT_RETRIED
    """A relay that has ended before this connects is noticed by that alone."""

    def __init__(
        self, context: "zmq.Context[Any]", home: RankHome, on_left: Callable[[], None]
    ) -> None:
        """Connect to the relay of this home; `on_left` is called once it is left.

        It is called again each time that `silence_s` is asked for, while it raises RuntimeError.
        """
        self._relay = f"ipc://{home.relay}"
        self.look_interval_s = alive_interval_s(home.lost_after_s)
        self.silent_s = _MISSED * self.look_interval_s
        """It leaves a relay from which it has received nothing for this time."""
        self._on_left: Callable[[], None] | None = on_left
        self._heard_s = monotonic()
        super().__init__(home.address, home.credentials, home.identity, context)

    def silence_s(self) -> float:
        """Tell for how long the coordinator is out of reach (0 while it is not)."""
        if self._relay and monotonic() - self._heard_s > self.silent_s:
            self._leave_relay()
        if not self._relay and self._on_left is not None:
            with suppress(RuntimeError):
                self._on_left()
                self._on_left = None
        return super().silence_s()

    def _take(self, ledger: Ledger, head: list[bytes], buffers: Sequence[Frame]) -> bool:
        self._heard_s = monotonic()
        return super()._take(ledger, head, buffers)

    def _dial(self) -> None:
        if self._relay:
            self._socket.setsockopt(zmq.HANDSHAKE_IVL, int(1000 * self.silent_s))
            self._socket.connect(self._relay)
        else:
            self._socket.setsockopt(zmq.HANDSHAKE_IVL, LONGEST_HANDSHAKE_MS)
            super()._dial()

    def _take_event(self, event: ConnectionEvent) -> None:
        if event.address.startswith("ipc:"):
            if not self._relay:
                return  # it was left before
            if not event.stands:
                self._leave_relay()
        super()._take_event(event)

    def _leave_relay(self) -> None:
        """Dial the coordinator itself: the relay is gone, or does not move."""
        self._socket.disconnect(self._relay)
        self._relay = ""
        self._connections = max(1, self._connections)  # what it was to carry may be lost
        self._dial()


def open_line(context: "zmq.Context[Any]", home: RankHome) -> EngineDealer:
    """Return a rank's end of the control channel; its heartbeats are answered from now on.

    Raise WireError for an address that cannot be dialled, RuntimeError without a thread more.
    """
    keys = None if home.address.startswith("ipc:") else home.credentials
    answer = partial(echo_heartbeats, context, home.beats_address, keys, home.identity)
    if not home.relay:
        answer()
        return EngineDealer(home.address, keys, home.identity, context)
    echo_heartbeats(context, f"ipc://{beats_path(home.relay)}", None, home.identity)
    return RelayedDealer(context, home, answer)
