"""The coordinator's ends of the control channel: many authenticated peers on one socket."""

import errno
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import zmq

from jupyter_dist.control.frames import receive_frames, send_frames, size_of
from jupyter_dist.control.ledger import Ledger, Sign, read_stamp
from jupyter_dist.control.unix_sockets import check_folder
from jupyter_dist.errors import MalformedMessage, VersionMismatch, no_free_port
from jupyter_dist.protocol.codec import VERSION, Decoder, Frame, encode
from jupyter_dist.protocol.credentials import KeyPair
from jupyter_dist.protocol.identity import client_of, is_far
from jupyter_dist.protocol.messages import Message

HEARTBEAT_MS = 2000
HEARTBEAT_TIMEOUT_MS = 9000
"""Those who dial ask for signs of life, and say each time after which silence they are gone. Long,
because a beat of libzmq waits behind a large message on the same connection; verdicts come from
heartbeat.py, whose connections carry nothing else."""
UNANSWERED_MS = 4000
"""After so long without a word from the other kernel a connection is made again: TCP itself would
try in ever longer steps, and so for as long after a break as that has lasted."""
KEPT_BYTES = 256 << 20
"""So much is kept for one line of a client, to be sent again where its connection breaks."""
MOST_SILENT = 15
"""For a client that is found silent more often in a row nothing is kept."""
MOST_SILENT_FAR = 24 * 3600
"""The same for clients on other machines: a laptop may sleep, and little is kept for it meanwhile,
since cells send no more than a window that is not confirmed."""
MOST_LEDGERS = 1000
"""Lines of clients that are remembered; of those that have no ledger any more the rest is lost."""
Incoming = TypeVar("Incoming")


class SendFrames(Protocol):
    """Sends the frames of a message, of which the first says to whom."""

    def __call__(self, frames: Sequence[Frame], *, copy: bool = True) -> None:
        """Send them; large ones from where they lie unless `copy`."""


class Received(msgspec.Struct, frozen=True):
    """One message and whom it came from; `problem` is set instead when it was refused."""

    identity: bytes
    message: Any
    buffers: list[Frame]
    problem: MalformedMessage | VersionMismatch | None = None


class Doorkeeper:
    """Admits only peers that prove a known CURVE key; one for all sockets of a context."""

    def __init__(self, context: "zmq.Context[Any]") -> None:
        from zmq.auth.thread import ThreadAuthenticator  # with asyncio, which no rank needs

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


def notice_cuts(socket: "zmq.Socket[Any]") -> None:
    """Have the system end connections that are cut, also where there is nothing to be sent.

    It asks the other kernel by itself, so that no process wakes up for that.
    """
    socket.setsockopt(zmq.TCP_MAXRT, UNANSWERED_MS)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, UNANSWERED_MS // 1000)


class Listener:
    """A bound ROUTER socket that only known peers can use, and that notices silent ones."""

    _linger_ms = 0

    def __init__(self, context: "zmq.Context[Any]", domain: str, key: KeyPair) -> None:
        socket = self._socket = context.socket(zmq.ROUTER)
        socket.curve_server = True
        socket.curve_secretkey = key.secret.encode()
        socket.curve_publickey = key.public.encode()
        socket.zap_domain = domain.encode()
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

    def bind_unix(self, path: str) -> None:
        """Listen at this path as well, where nothing is encrypted and no key is asked for.

        Raise OSError where that cannot be done, and PermissionError for a folder that is not closed
        to all other users.
        """
        check_folder(path)
        self._socket.curve_server = False  # holds for what is bound from now on
        try:
            self._socket.bind(f"ipc://{path}")
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"{path} cannot be listened at: {error}") from error
        finally:
            self._socket.curve_server = True

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
            notice_cuts(self._socket)
        # Unlimited: dropping a message to a slow peer without a word would break the protocol.
        # What can grow (outputs) is bounded by acknowledgements, not by silently losing frames.
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._send: SendFrames = partial(send_frames, self._socket)

    def send(self, identity: bytes, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send one message to one peer; large buffers are not copied."""
        self._post(identity, encode(message, buffers), copy=not buffers)

    def send_to_all(self, identities: Sequence[bytes], message: Message) -> None:
        """Send one message to several peers; it is encoded once."""
        frames, ledgers, send = encode(message), self._ledgers, self._send
        for identity in identities:
            ledger = ledgers.get(identity)
            stamped = frames if ledger is None else ledger.enter(frames)
            send((identity, *stamped))

    def keep_only(self, identities: Collection[bytes]) -> None:
        """Forget what was said to peers other than these: they will not come back."""
        for identity in self._ledgers.keys() - set(identities):
            del self._ledgers[identity]

    def keep_less(self) -> None:
        """Bound what is kept for clients; called about once a second.

        Calls are counted, not time: a coordinator that was asleep itself gives up nobody.
        """
        heard, self._heard = {client_of(identity) for identity in self._heard}, set()
        for identity, ledger in self._ledgers.items():
            ledger.silence = 0 if client_of(identity) in heard else ledger.silence + 1
            most_silent = MOST_SILENT_FAR if is_far(identity) else MOST_SILENT
            if ledger.silence > most_silent or ledger.kept_bytes > KEPT_BYTES:
                ledger.give_up()
        silent = [identity for identity, ledger in self._ledgers.items() if ledger.silence]
        for identity in silent[: max(0, len(self._ledgers) - MOST_LEDGERS)]:
            del self._ledgers[identity]

    def _post(self, identity: bytes, frames: Sequence[Frame], *, copy: bool = True) -> None:
        ledger = self._ledgers.get(identity)
        stamped = frames if ledger is None else ledger.enter(frames)
        self._send((identity, *stamped), copy=copy)

    def send_to_stranger(self, identity: bytes, message: Message) -> None:
        """Send to a peer that is to be forgotten: if this is lost, it is lost."""
        self._ledgers.pop(identity, None)
        self._post(identity, encode(message))

    def receive(self, limit: int = 200) -> Iterator[Received]:
        """Yield what has arrived, at most `limit` messages, without waiting."""
        for _ in range(limit):
            arrived = receive_frames(self._socket, small=3)
            if arrived is None:
                return
            (identity, *head), buffers = arrived
            if (received := self._open(identity, head, buffers)) is not None:
                yield received

    def _open(self, identity: bytes, head: list[bytes], buffers: list[Frame]) -> Received | None:
        """Note a message that is stamped, and return what is to be handed on of it."""
        stamp = read_stamp(head[0]) if head else None
        if stamp is not None:
            head[0] = VERSION
            self._heard.add(identity)
            ledger = self._ledgers.get(identity)
            is_known = ledger is not None
            if ledger is None:
                ledger = self._ledgers[identity] = Ledger.begin_at(stamp)
            is_new, sign = ledger.take(stamp, size_of(head, buffers) if buffers else len(head[-1]))
            if sign is Sign.LEAVES:
                del self._ledgers[identity]
            elif sign is Sign.RESUMES:
                if ledger.is_lacking(stamp) or not (is_known or ledger.is_fresh):
                    self._send((identity, *ledger.word(Sign.LACKS)))
                for frames in ledger.unacknowledged():
                    self._send((identity, *frames), copy=False)
            if ledger.owes_word:
                self._send((identity, *ledger.word()))
            if not is_new:
                return None
        try:
            return Received(identity, self._decoder.decode(head), buffers)
        except (MalformedMessage, VersionMismatch) as problem:
            return Received(identity, None, [], problem)
