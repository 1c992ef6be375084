"""A peer's end of the control channel: one authenticated connection to the coordinator."""

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar

import zmq

from jupyter_dist.control.connection_events import CONNECTION_EVENTS, ConnectionEvent, read_event
from jupyter_dist.control.frames import has_arrived, receive_frames, send_frames, size_of
from jupyter_dist.control.ledger import Ledger, Sign, read_stamp
from jupyter_dist.control.router import HEARTBEAT_MS, HEARTBEAT_TIMEOUT_MS, notice_cuts
from jupyter_dist.control.sockets import Sockets
from jupyter_dist.errors import WireError
from jupyter_dist.protocol.codec import VERSION, Decoder, Frame, encode
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.protocol.messages import Message

Incoming = TypeVar("Incoming")
_SAID_BY_RELAYS = (Sign.CUT, Sign.MENDED)


class AnswersLost(WireError):
    """The connection was cut for so long that answers were not kept."""

    def __init__(self) -> None:
        super().__init__(
            "the connection to the cluster was cut for so long that its answer is lost (was this "
            "process stopped?). What was asked for may have been done: %dist_status tells how the "
            "cluster is, and you can ask again."
        )


class Dealer(Generic[Incoming]):
    """A connected DEALER socket. Not thread-safe: its one owner sends, receives and waits.

    Without credentials it dials a Unix socket, where the other side asks for none.
    Without a context of the caller's it uses the one that all clients of the process share.
    With an identity it is the same peer after a broken connection, and nothing is lost by that;
    its owner has to ask for `silence_s` often, for that is when what was lost is sent again.
    """

    _events: ClassVar[int] = CONNECTION_EVENTS

    def __init__(
        self,
        address: str,
        credentials: Credentials | None,
        decoder: Decoder[Incoming],
        identity: bytes = b"",
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        self._decoder = decoder
        self._address, self._credentials = address, credentials
        self._ledger = Ledger() if identity else None
        self._cut_since_s: float | None = monotonic()
        self._connections = 0
        self._sockets = Sockets(self, context)
        try:
            self._socket = self._sockets.make(zmq.DEALER)
            if identity:
                self._socket.setsockopt(zmq.IDENTITY, identity)
                notice_cuts(self._socket)
            self._socket.setsockopt(zmq.SNDHWM, 0)
            self._socket.setsockopt(zmq.RCVHWM, 0)
            self._monitor = self._sockets.monitor(self._socket, self._events)
            self._dial()
        except zmq.ZMQError as error:
            self._sockets.close()
            raise WireError(f"{address!r} cannot be dialled with these keys: {error}") from error
        except BaseException:
            self._sockets.close()
            raise

    @property
    def pollable(self) -> Any:
        """The socket itself."""
        return self._socket

    @property
    def fileno(self) -> int:
        """The descriptor that becomes readable when the socket is to be looked at."""
        return int(self._socket.getsockopt(zmq.FD))

    @property
    def monitor_fileno(self) -> int:
        """The descriptor that becomes readable when `silence_s` has something to learn."""
        return int(self._monitor.getsockopt(zmq.FD))

    def send(self, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send one message; large buffers are not copied."""
        frames = encode(message, buffers)
        if self._ledger is not None:
            frames = self._ledger.enter(frames)
        send_frames(self._socket, frames, copy=not buffers)

    def receive(self) -> Iterator[tuple[Incoming, list[Frame]]]:
        """Yield what has arrived, without waiting.

        Raises WireError for what cannot be decoded, and AnswersLost where the other side does not
        have any more what was lost with a connection; what came after that follows next time.
        """
        while True:
            arrived = receive_frames(self._socket, small=2)
            if arrived is None:
                return
            head, buffers = arrived
            if self._ledger is not None and not self._take(self._ledger, head, buffers):
                self._read_monitor()  # after a break what follows a gap comes, and is not taken
                continue
            message = self._decoder.decode(head)
            yield message, buffers

    def wait(self, timeout_s: float) -> bool:
        """Wait until something has arrived, at most `timeout_s`."""
        return has_arrived(self._socket, max(0, round(timeout_s * 1000)))

    def silence_s(self) -> float:
        """Tell for how long there has been no working connection (0 while there is one)."""
        self._read_monitor()
        return 0.0 if self._cut_since_s is None else monotonic() - self._cut_since_s

    def _dial(self) -> None:
        """Connect, and have the other side asked for signs of life by libzmq."""
        ping(self._socket)
        self._connect()

    def _connect(self) -> None:
        if self._credentials is None:
            try_again_soon(self._socket)
        else:
            secure_client(self._socket, self._credentials)
        dial(self._socket, self._address)

    def _read_monitor(self) -> None:
        while (event := read_event(self._monitor)) is not None:
            self._take_event(event)

    def _take_event(self, event: ConnectionEvent) -> None:
        if event.stands:
            self._cut_since_s = None
            self._connections += 1
            if self._connections > 1 and self._ledger is not None:
                self._resume(self._ledger)
        elif self._cut_since_s is None:
            self._cut_since_s = monotonic()

    def _resume(self, ledger: Ledger) -> None:
        """Go on over a new connection: what may have been lost with the old one is sent again."""
        send_frames(self._socket, ledger.word(Sign.RESUMES))
        for frames in ledger.unacknowledged():
            send_frames(self._socket, frames, copy=False)

    def _take(self, ledger: Ledger, head: list[bytes], buffers: Sequence[Frame]) -> bool:
        """Note a stamped message; return whether it is to be handed on."""
        stamp = read_stamp(head[0])
        if stamp is None:
            return True
        head[0] = VERSION
        size_bytes = size_of(head, buffers) if buffers else len(head[-1])
        is_new, sign = ledger.take(stamp, size_bytes)
        if sign is Sign.LACKS:
            raise AnswersLost
        if not is_new and sign in _SAID_BY_RELAYS:
            self._read_monitor()  # what is older: that the relay is there
            self._take_event(ConnectionEvent(sign is Sign.MENDED, ""))
        if ledger.owes_word:
            send_frames(self._socket, ledger.word())
        return is_new

    def close(self, linger_ms: int = 200) -> None:
        """Close the connection, giving what was sent this long to leave; twice is fine."""
        is_open = not self._socket.closed and self._cut_since_s is None
        if self._ledger is not None and is_open:
            send_frames(self._socket, self._ledger.word(Sign.LEAVES))
        self._sockets.close(linger_ms)


def secure_client(socket: "zmq.Socket[bytes]", credentials: Credentials) -> None:
    """Make a dialling socket encrypt and prove its key; it tries again soon where it must."""
    socket.setsockopt(zmq.CURVE_SERVERKEY, credentials.server_public.encode())
    socket.setsockopt(zmq.CURVE_PUBLICKEY, credentials.own.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, credentials.own.secret.encode())
    try_again_soon(socket)


def try_again_soon(socket: "zmq.Socket[bytes]") -> None:
    """Make a dialling socket reconnect soon, and drop what is unsent when it is closed."""
    socket.setsockopt(zmq.CONNECT_TIMEOUT, 2000)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
    socket.setsockopt(zmq.LINGER, 0)


def ping(socket: "zmq.Socket[bytes]") -> None:
    """Make a dialling socket notice a silent server, and the server a silent peer."""
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, HEARTBEAT_TIMEOUT_MS)  # the server asks nothing itself


def dial(socket: "zmq.Socket[bytes]", address: str) -> None:
    """Connect to `tcp://host:port`, where IPv6 hosts stand in brackets, or to `ipc://path`."""
    if "[" in address:
        socket.setsockopt(zmq.IPV6, 1)
    socket.connect(address)
