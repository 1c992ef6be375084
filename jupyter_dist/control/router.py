"""The coordinator's ends of the control channel: many authenticated peers on one socket."""

import errno
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import zmq
from zmq.auth.thread import ThreadAuthenticator

from jupyter_dist.control.frames import receive_frames, send_frames, size_of
from jupyter_dist.control.ledger import Ledger, Sign, read_stamp
from jupyter_dist.errors import MalformedMessage, VersionMismatch, no_free_port
from jupyter_dist.protocol.codec import Decoder, Frame, encode
from jupyter_dist.protocol.credentials import KeyPair
from jupyter_dist.protocol.identity import client_of
from jupyter_dist.protocol.messages import Message

HEARTBEAT_MS = 1000
HEARTBEAT_TIMEOUT_MS = 10_000
"""Long, because a beat of libzmq waits behind a large message on the same connection; verdicts
come from heartbeat.py, whose connections carry nothing else."""
UNANSWERED_MS = 4000
"""After so long without a word from the other kernel a connection is made again: TCP itself would
try in ever longer steps, and so for as long after a break as that has lasted."""
KEPT_BYTES = 256 << 20
"""So much is kept for one line of a client, to be sent again where its connection breaks."""
MOST_SILENT = 30
"""For a client that is found silent more often in a row nothing is kept."""
MOST_LEDGERS = 1000
"""Lines of clients that are remembered; of those that have no ledger any more the rest is lost."""
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
        """Return whether the key opens this domain; called by the authenticator for each peer."""
        return key.decode() == self._keys.get(domain)

    def close(self) -> None:
        """Stop the authenticator's thread."""
        self._authenticator.stop()


class Listener:
    """A bound ROUTER socket that only known peers can use, and that notices silent ones."""

    _linger_ms = 0

    def __init__(self, context: "zmq.Context[Any]", domain: str, key: KeyPair) -> None:
        socket = self._socket = context.socket(zmq.ROUTER)
        socket.curve_server = True
        socket.curve_secretkey = key.secret.encode()
        socket.curve_publickey = key.public.encode()
        socket.zap_domain = domain.encode()
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        socket.setsockopt(zmq.HANDSHAKE_IVL, 5000)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)

    @property
    def pollable(self) -> Any:
        """The socket itself."""
        return self._socket

    def bind(self, host: str, ports: Sequence[int] = ()) -> int:
        """Listen on a free port (one of these, if given) of this address and return the port.

        Bind first, tell the number after: a port picked beforehand is a race. `::` takes IPv4 as
        well. Raises OSError when none of `ports` (none given: no port) is free.
        """
        if ":" in host:
            self._socket.setsockopt(zmq.IPV6, 1)
            host = f"[{host}]"
        for port in ports or ("*",):
            try:
                self._socket.bind(f"tcp://{host}:{port}")
            except zmq.ZMQError as error:
                if error.errno != errno.EADDRINUSE:
                    raise OSError(error.errno, f"{host} cannot be listened on: {error}") from error
            else:
                break
        else:
            raise OSError(errno.EADDRINUSE, no_free_port(host))
        return int(self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def close(self) -> None:
        """Close the socket, giving what was sent a moment to leave."""
        self._socket.close(self._linger_ms)


class Router(Listener, Generic[Incoming]):
    """Sends and receives messages; those to peers that are gone are dropped.

    With peers that stamp what they say nothing is lost when a connection breaks: see ledger.py.
    """

    _linger_ms = 200

    def __init__(
        self,
        context: "zmq.Context[Any]",
        domain: str,
        key: KeyPair,
        decoder: Decoder[Incoming],
        *,
        survives_breaks: bool = False,
    ) -> None:
        self._decoder = decoder
        self._ledgers: dict[bytes, Ledger] = {}
        self._heard: set[bytes] = set()
        super().__init__(context, domain, key)
        if survives_breaks:  # the others would lose what waits for one that is slow, or stopped
            self._socket.setsockopt(zmq.TCP_MAXRT, UNANSWERED_MS)
        # Unlimited: dropping a message to a slow peer without a word would break the protocol.
        # What can grow (outputs) is bounded by acknowledgements, not by silently losing frames.
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)

    def send(self, identity: bytes, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send one message to one peer; large buffers are not copied."""
        self._post(identity, encode(message, buffers), copy=not buffers)

    def send_to_all(self, identities: Sequence[bytes], message: Message) -> None:
        """Send one message to several peers; it is encoded once."""
        frames = encode(message)
        for identity in identities:
            self._post(identity, frames)

    def keep_only(self, identities: Collection[bytes]) -> None:
        """Forget what was said to peers other than these: they will not come back."""
        for identity in self._ledgers.keys() - set(identities):
            del self._ledgers[identity]

    def keep_less(self) -> None:
        """Bound what is kept for clients; called about twice a second.

        Calls are counted, not time: a coordinator that was asleep itself gives up nobody.
        """
        heard, self._heard = {client_of(identity) for identity in self._heard}, set()
        for identity, ledger in self._ledgers.items():
            ledger.silence = 0 if client_of(identity) in heard else ledger.silence + 1
            if ledger.silence > MOST_SILENT or ledger.kept_bytes > KEPT_BYTES:
                ledger.give_up()
        silent = [identity for identity, ledger in self._ledgers.items() if ledger.silence]
        for identity in silent[: max(0, len(self._ledgers) - MOST_LEDGERS)]:
            del self._ledgers[identity]

    def _post(self, identity: bytes, frames: Sequence[Frame], *, copy: bool = True) -> None:
        ledger = self._ledgers.get(identity)
        stamped = frames if ledger is None else ledger.enter(frames)
        send_frames(self._socket, [identity, *stamped], copy=copy)

    def send_to_stranger(self, identity: bytes, message: Message) -> None:
        """Send to a peer that is to be forgotten: if this is lost, it is lost."""
        self._ledgers.pop(identity, None)
        self._post(identity, encode(message))

    def _take(self, identity: bytes, head: list[bytes], buffers: Sequence[Frame]) -> bool:
        """Note a stamped message; return whether it is to be handed on."""
        stamp = read_stamp(head[0])
        if stamp is None:
            return True
        head[0] = head[0][: -len(stamp)]
        self._heard.add(identity)
        ledger = self._ledgers.get(identity)
        is_known = ledger is not None
        if ledger is None:
            ledger = self._ledgers[identity] = Ledger.begin_at(stamp)
        is_new, sign = ledger.take(stamp, size_of(head, buffers))
        if sign is Sign.LEAVES:
            del self._ledgers[identity]
        elif sign is Sign.RESUMES:
            if ledger.is_lacking(stamp) or not (is_known or ledger.is_fresh):
                send_frames(self._socket, [identity, *ledger.word(Sign.LACKS)])
            for frames in ledger.unacknowledged():
                send_frames(self._socket, [identity, *frames], copy=False)
        if ledger.owes_word:
            send_frames(self._socket, [identity, *ledger.word()])
        return is_new

    def receive(self, limit: int = 200) -> Iterator[Received]:
        """Yield what has arrived, at most `limit` messages, without waiting."""
        for _ in range(limit):
            arrived = receive_frames(self._socket, small=3)
            if arrived is None:
                return
            (identity, *head), buffers = arrived
            if head and not self._take(identity, head, buffers):
                continue
            try:
                message, _ = self._decoder.decode(head)
            except (MalformedMessage, VersionMismatch) as problem:
                yield Received(identity, None, [], problem)
                continue
            yield Received(identity, message, buffers)
