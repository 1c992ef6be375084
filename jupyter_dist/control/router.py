"""The coordinator's ends of the control channel: many authenticated peers on one socket."""

import errno
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import zmq
from zmq.auth.thread import ThreadAuthenticator

from jupyter_dist.errors import MalformedMessage, VersionMismatch, no_free_port
from jupyter_dist.protocol.codec import Decoder, Frame, encode
from jupyter_dist.protocol.credentials import KeyPair
from jupyter_dist.protocol.messages import Message

HEARTBEAT_MS = 1000
HEARTBEAT_TIMEOUT_MS = 10_000
"""Long, because a beat of libzmq waits behind a large message on the same connection; verdicts
come from heartbeat.py, whose connections carry nothing else."""
Incoming = TypeVar("Incoming")


class Received(NamedTuple):
    """One message and whom it came from; `problem` is set instead when it was refused."""

    identity: bytes
    message: Any
    buffers: list[Frame]
    problem: MalformedMessage | VersionMismatch | None = None


class Doorkeeper:
    """Admits only peers that prove a known CURVE key; one for all sockets of a context."""

    def __init__(self, context: "zmq.Context[Any]") -> None:
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._keys: dict[str, str] = {}

    def admit(self, domain: str, public_key: str) -> None:
        """Let peers with this key use the sockets of this domain."""
        self._keys[domain] = public_key
        self._authenticator.configure_curve_callback(domain, self)

    def callback(self, domain: str, key: bytes) -> bool:
        """Tell whether the key opens this domain; called by the authenticator for each peer."""
        return key.decode() == self._keys.get(domain)

    def close(self) -> None:
        """Stop the authenticator's thread."""
        self._authenticator.stop()


class Router(Generic[Incoming]):
    """A bound ROUTER socket; messages to peers that are gone are dropped."""

    def __init__(
        self, context: "zmq.Context[Any]", domain: str, key: KeyPair, decoder: Decoder[Incoming]
    ) -> None:
        self._decoder = decoder
        self._socket = context.socket(zmq.ROUTER)
        secure_server(self._socket, domain, key)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        # Unlimited: dropping a message to a slow peer without a word would break the protocol.
        # What can grow (outputs) is bounded by acknowledgements, not by silently losing frames.
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)

    @property
    def pollable(self) -> Any:
        """The socket itself."""
        return self._socket

    def bind(self, host: str, ports: Sequence[int] = ()) -> int:
        """Listen on a free port (one of these, if given) of this address and return the port."""
        return bind_free_port(self._socket, host, ports)

    def send(self, identity: bytes, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send one message to one peer; large buffers are not copied."""
        self._socket.send_multipart([identity, *encode(message, buffers)], copy=not buffers)

    def send_to_all(self, identities: Sequence[bytes], message: Message) -> None:
        """Send one message to several peers; it is encoded once."""
        frames = encode(message)
        for identity in identities:
            self._socket.send_multipart([identity, *frames])

    def receive(self, limit: int = 200) -> Iterator[Received]:
        """Give what has arrived, at most `limit` messages, without waiting."""
        for _ in range(limit):
            try:
                identity = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            head, buffers = receive_frames(self._socket)
            try:
                message, _ = self._decoder.decode(head)
            except (MalformedMessage, VersionMismatch) as problem:
                yield Received(identity, None, [], problem)
                continue
            yield Received(identity, message, buffers)

    def close(self, linger_ms: int = 200) -> None:
        """Close the socket, giving what was sent this long to leave."""
        self._socket.close(linger_ms)


def receive_frames(
    socket: "zmq.Socket[bytes]", head: Sequence[bytes] = ()
) -> tuple[list[bytes], list[Frame]]:
    """Receive the rest of a message: two small frames as bytes, buffers without copying them."""
    small = list(head)
    buffers: list[Frame] = []
    while socket.getsockopt(zmq.RCVMORE):  # the attribute takes four times as long
        if len(small) < 2:
            small.append(socket.recv())
        else:
            buffers.append(socket.recv(copy=False).buffer)
    return small, buffers


def secure_server(socket: "zmq.Socket[bytes]", domain: str, key: KeyPair) -> None:
    """Make a listening socket accept only encrypted, known peers, and notice silent ones."""
    socket.curve_server = True
    socket.curve_secretkey = key.secret.encode()
    socket.curve_publickey = key.public.encode()
    socket.zap_domain = domain.encode()
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.HANDSHAKE_IVL, 5000)
    socket.setsockopt(zmq.LINGER, 0)


def bind_free_port(socket: "zmq.Socket[bytes]", host: str, ports: Sequence[int] = ()) -> int:
    """Bind first, tell the number after: a port picked beforehand is a race.

    `::` takes IPv4 as well. Raises OSError when none of `ports` (none given: no port) is free.
    """
    if ":" in host:
        socket.setsockopt(zmq.IPV6, 1)
        host = f"[{host}]"
    for port in ports or ("*",):
        try:
            socket.bind(f"tcp://{host}:{port}")
        except zmq.ZMQError as error:
            if error.errno != errno.EADDRINUSE:
                raise OSError(error.errno, f"{host} cannot be listened on: {error}") from error
        else:
            break
    else:
        raise OSError(errno.EADDRINUSE, no_free_port(host))
    return int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
