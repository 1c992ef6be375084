"""A peer's end of the control channel: one authenticated connection to the coordinator."""

import struct
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar

import zmq

from jupyter_dist.control.frames import receive_frames, send_frames, size_of
from jupyter_dist.control.ledger import Ledger, Sign, read_stamp
from jupyter_dist.control.router import HEARTBEAT_MS, HEARTBEAT_TIMEOUT_MS, UNANSWERED_MS
from jupyter_dist.control.sockets import Sockets
from jupyter_dist.errors import WireError
from jupyter_dist.protocol.codec import Decoder, Frame, encode
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.protocol.messages import Message

Incoming = TypeVar("Incoming")
# As in libzmq's zmq_socket_monitor(3). pyzmq reads it too, in a module that loads asyncio and ssl.
_EVENT = struct.Struct("=HI")
_CONNECTION_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


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

    Without a context of the caller's it uses the one that all clients of the process share.
    With an identity it is the same peer after a broken connection, and nothing is lost by that;
    its owner has to ask for `silence_s` often, for that is when what was lost is sent again.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        decoder: Decoder[Incoming],
        identity: bytes = b"",
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        self._decoder = decoder
        self._ledger = Ledger() if identity else None
        self._cut_since_s: float | None = monotonic()
        self._connections = 0
        self._sockets = Sockets(self, context)
        try:
            self._socket = self._sockets.make(zmq.DEALER)
            secure_client(self._socket, credentials)
            if identity:
                self._socket.identity = identity
                self._socket.setsockopt(zmq.TCP_MAXRT, UNANSWERED_MS)
            self._socket.setsockopt(zmq.SNDHWM, 0)
            self._socket.setsockopt(zmq.RCVHWM, 0)
            self._monitor = self._sockets.monitor(self._socket, _CONNECTION_EVENTS)
            dial(self._socket, address)
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
            message, _ = self._decoder.decode(head)
            yield message, buffers

    def wait(self, timeout_s: float) -> bool:
        """Wait until something has arrived, at most `timeout_s`."""
        return bool(self._socket.poll(max(0, round(timeout_s * 1000))))

    def silence_s(self) -> float:
        """Tell for how long there has been no working connection (0 while there is one)."""
        self._read_monitor()
        return 0.0 if self._cut_since_s is None else monotonic() - self._cut_since_s

    def _read_monitor(self) -> None:
        while self._monitor.poll(0):
            event = _EVENT.unpack(self._monitor.recv_multipart()[0])[0]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
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
        head[0] = head[0][: -len(stamp)]
        is_new, sign = ledger.take(stamp, size_of(head, buffers))
        if sign is Sign.LACKS:
            raise AnswersLost
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
    """Make a dialling socket encrypt, prove its key, and notice a silent server."""
    socket.curve_serverkey = credentials.server_public.encode()
    socket.curve_publickey = credentials.own.public.encode()
    socket.curve_secretkey = credentials.own.secret.encode()
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, 2000)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
    socket.setsockopt(zmq.LINGER, 0)


def dial(socket: "zmq.Socket[bytes]", address: str) -> None:
    """Connect to `tcp://host:port`; IPv6 hosts stand in brackets."""
    if "[" in address:
        socket.setsockopt(zmq.IPV6, 1)
    socket.connect(address)
