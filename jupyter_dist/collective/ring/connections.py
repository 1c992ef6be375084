"""The sockets of one ring communicator: made on demand, directed, torn down together.

Data flows from the side that connected to the side that accepted. The way back carries only a
breakage: the reason why the receiver left.
"""

import contextlib
import errno
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.ring import handshake
from jupyter_dist.collective.ring.acceptor import Acceptor
from jupyter_dist.collective.ring.handshake import Membership
from jupyter_dist.collective.ring.stopped import Certainty, Stopped
from jupyter_dist.collective.ring.wire import BREAKAGE_BYTES, pack_breakage, unpack_breakage
from jupyter_dist.errors import CollectiveTimeout, MalformedMessage, PeerFailed
from jupyter_dist.model.hosts.addresses import split_address
from jupyter_dist.model.hosts.rank import name_rank, name_ranks
from jupyter_dist.model.ranks.held_time import Deadline, HeldTime

HostOf = Callable[[int], str]
"""Names the host of a rank of the cluster."""

SLICE_S = 0.2
"""The longest wait in one piece, so that Ctrl-C is always heard."""

NO_WAY_PATIENCE_S = 10.0
"""How long a peer to which there is no way is tried again; the coordinator knows by then whether
its host is lost, and ends the wait."""

PROBE_S = 0.5
"""How long a peer with which the connection was reset has to show that it lives."""

CROWDED_OUT_S = 2.0
"""How long a peer that ends connections before it answers is tried again: strangers who take all
its places may drive a hello out before it is read. One that has left refuses connections."""

AGAIN_S = 0.01
"""The wait before that."""

_RESET = (errno.ECONNRESET, errno.ECONNABORTED)

_NO_WAY = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)

LOCAL_BUFFER_BYTES = 256 * 1024
"""What is under way to a rank of the same host stays in the processor's caches; with the kernel's
own choice of megabytes 64 MiB take a quarter longer. To other hosts it must fill a long line."""

GRACE_S = 0.1
"""How long a rank that lost a peer waits to be told the true cause."""


class Addresses(Protocol):
    """Addresses of members, as `host:port`."""

    def __getitem__(self, member: int, /) -> str:
        """Return that of a member; raises CollectiveTimeout or PeerFailed if nothing tells it."""


class Connections:
    """Every socket between this rank and its peers.

    Only `abort` and the acceptor's thread may enter while the owner is inside another method.
    """

    def __init__(
        self,
        listener: socket.socket | None,
        me: Membership,
        peers: Addresses,
        world_ranks: Sequence[int],
        host_of: HostOf | None = None,
    ) -> None:
        self.me = me
        self.world_ranks = world_ranks
        """Rank in the cluster of each member: what people call it."""
        self.doing = Call(Signature("barrier"), 0)
        """What the owner is in, for the reasons that peers get to read."""
        self.timeout_s, self.held = 0.0, HeldTime()
        self.incoming: dict[int, socket.socket] = {}
        self._outgoing: dict[int, socket.socket] = {}
        self._peers = peers
        self._host_of = host_of
        self._resets: set[int] = set()
        """Peers with which a connection was reset; that may be how one that died is noticed."""
        self._heard: dict[int, bytearray] = {}
        self._abort: Breakage | None = None
        self._is_closed = False
        self._filing = threading.Lock()
        self.wake, self._waker = socket.socketpair()
        self.wake.setblocking(False)
        self._waker.setblocking(False)
        self._acceptor = None if listener is None else Acceptor(listener, me, self._admit)

    # --- from other threads ------------------------------------------------------------------

    def abort(self, breakage: Breakage) -> None:
        """Make the operation that runs, if any, stop at once with this breakage."""
        self._abort = self._abort or breakage
        self._rouse()

    def _admit(self, rank: int, connection: socket.socket) -> None:
        with self._filing:
            if self._is_closed or rank in self.incoming:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.incoming[rank] = connection
        self._rouse()

    def _rouse(self) -> None:
        # A full pipe wakes as well as one more byte would; a closed one has nobody to wake.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    # --- from the owner's thread -------------------------------------------------------------

    @property
    def connected(self) -> Mapping[int, socket.socket]:
        """Return the connections that this rank has made, by peer, without making another one."""
        return self._outgoing

    def overdue(self, late: Sequence[int]) -> Breakage:
        """Describe that these ranks of the cluster have not come in time."""
        text = f"waited {self.timeout_s:g} s for {name_ranks(late)} in {self.doing}"
        return Breakage("timeout", self.world_ranks[self.me.rank], text)

    def listen_to_wake(self) -> None:
        """Take the wake-ups in; raise Stopped when one of them was an abort."""
        with contextlib.suppress(BlockingIOError):
            self.wake.recv(4096)
        if self._abort is not None:
            raise Stopped(self._abort)

    def closed_by(self, peer: int, certainty: Certainty) -> Stopped:
        """Describe that a peer closed its connection, or that this was reset though both live."""
        if peer in self._resets:
            try:
                self._check_alive(peer)
            except ConnectionError:
                pass  # the reset is how the end of its process was noticed
            except (OSError, Stopped):
                if self._abort is not None:
                    return Stopped(self._abort)
                text = f"does not answer after a reset of its connection during {self.doing}"
                return Stopped(Breakage("failed", self.world_ranks[peer], text), Certainty.SEEN)
            else:
                return Stopped(self._describe_reset(peer))
        text = f"closed its connection during {self.doing}"
        return Stopped(Breakage("failed", self.world_ranks[peer], text), certainty)

    def note_reset(self, peer: int, error: OSError) -> None:
        """Take note of an error of a connection with a peer, if it says that it was reset."""
        if error.errno in _RESET:
            self._resets.add(peer)

    def _check_alive(self, peer: int) -> None:
        """Let a peer prove that it lives, and is in this generation; raise OSError or Stopped."""
        connection, _proof = self._dial(peer, Deadline(self.held, time.monotonic(), PROBE_S))
        connection.close()  # without our proof it is none of its connections

    def _describe_reset(self, peer: int) -> Breakage:
        one, other = sorted((self.me.rank, peer))
        ranks = self.world_ranks[one], self.world_ranks[other]
        ends = [
            f"rank {rank}{f' ({self._host_of(rank)})' if self._host_of else ''}" for rank in ranks
        ]
        text = f"the connection between {ends[0]} and {ends[1]} was reset during {self.doing}"
        return Breakage("reset", ranks[0], f"{text}; both ranks live", ranks[1])

    def outgoing(self, peer: int, deadline: Deadline) -> socket.socket:
        """Return the connection to a peer, made now if need be; raise Stopped when that fails."""
        connection = self._outgoing.get(peer)
        if connection is None:
            connection = self._connect(peer, deadline)
            self._outgoing[peer] = connection
            self._heard[peer] = bytearray()
        return connection

    def _connect(self, peer: int, deadline: Deadline) -> socket.socket:
        """Connect; a network that is broken now may work again before the peer is given up."""
        began = time.monotonic()
        while True:
            try:
                return self._connect_once(peer, deadline)
            except OSError as error:
                patience_s, wait_s = _try_again(error)
                if time.monotonic() - began >= patience_s:
                    text = f"cannot be reached at {self._peers[peer]} ({error}) for {self.doing}"
                    unreachable = Breakage("failed", self.world_ranks[peer], text)
                    raise Stopped(unreachable, Certainty.SEEN) from error
            poll = select.poll()
            poll.register(self.wake, select.POLLIN)
            if poll.poll(1000 * wait_s):
                self.listen_to_wake()

    def _connect_once(self, peer: int, deadline: Deadline) -> socket.socket:
        connection, proof = self._dial(peer, deadline)
        try:
            connection.send(proof)
            if connection.getsockname()[0] == connection.getpeername()[0]:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LOCAL_BUFFER_BYTES)
        except BaseException:
            connection.close()
            raise
        return connection

    def _dial(self, peer: int, deadline: Deadline) -> tuple[socket.socket, bytes]:
        """Connect to a peer that proves that it is one; return what will prove the same of us."""
        host, port = split_address(_look_up(self._peers, peer, self))
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect_ex(address)
            self._wait_for(connection, select.POLLOUT, peer, deadline)
            return connection, self._answer(connection, peer, deadline)
        except BaseException:
            connection.close()
            raise

    def _answer(self, connection: socket.socket, peer: int, deadline: Deadline) -> bytes:
        hello = handshake.write_hello(self.me, peer)
        connection.send(hello)
        challenge = b""
        while len(challenge) < handshake.CHALLENGE_BYTES:
            self._wait_for(connection, select.POLLIN, peer, deadline)
            received = connection.recv(handshake.CHALLENGE_BYTES - len(challenge))
            if not received:
                raise ConnectionResetError("it belongs to another generation, or has left")
            challenge += received
        proof = handshake.answer_challenge(self.me, hello, challenge)
        if proof is None:
            raise ConnectionRefusedError("the peer that answers there does not know the key")
        return proof

    def _wait_for(self, connection: socket.socket, event: int, peer: int, until: Deadline) -> None:
        poll = select.poll()
        poll.register(connection, event)
        poll.register(self.wake, select.POLLIN)
        while True:
            remaining_s = until.left_s(time.monotonic())
            if remaining_s <= 0:
                who = name_rank(self.world_ranks[peer])
                text = f"waited {self.timeout_s:g} s for {who} to answer, for {self.doing}"
                raise Stopped(Breakage("timeout", self.world_ranks[self.me.rank], text))
            for fd, _events in poll.poll(1000 * min(SLICE_S, remaining_s)):
                if fd == connection.fileno():
                    return
                self.listen_to_wake()

    def hear(self, peer: int) -> None:
        """Read what came back on an outgoing connection.

        Raises Stopped when the peer told why it left, and ConnectionError when it left without.
        """
        heard = self._heard[peer]
        with contextlib.suppress(BlockingIOError):
            try:
                received = self._outgoing[peer].recv(BREAKAGE_BYTES - len(heard))
            except ConnectionError as error:
                self.note_reset(peer, error)
                raise
            if not received:
                raise ConnectionResetError("closed")
            heard += received
        if len(heard) == BREAKAGE_BYTES:
            try:
                raise Stopped(unpack_breakage(heard))
            except MalformedMessage as error:
                raise ConnectionResetError(str(error)) from error

    # --- the end -----------------------------------------------------------------------------

    def settle(self, stop: Stopped) -> Breakage:
        """Pass the reason on to the peers, and wait a little for a better one.

        What we found or were told goes on at once; a mismatch says more than that others have left.
        After a guess the ranks that we send to are let go, so that they do not wait either, and
        those that send to us are told when the guess is settled.
        """
        if stop.certainty > Certainty.GUESSED:
            self._tell(stop.breakage)
        for connection in self._outgoing.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        if stop.breakage.kind in ("failed", "reset") and self._abort is None:
            stop = self._ask_why(stop)
        breakage = (stop.breakage.kind != "mismatch" and self._abort) or stop.breakage
        self._tell(breakage)
        return breakage

    def _ask_why(self, stop: Stopped) -> Stopped:
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        talking = {connection.fileno(): peer for peer, connection in self._outgoing.items()}
        for fd in talking:
            poll.register(fd, select.POLLIN)
        ends_at = time.monotonic() + GRACE_S
        while (remaining_s := ends_at - time.monotonic()) > 0:
            for fd, _events in poll.poll(1000 * remaining_s):
                try:
                    if fd not in talking:
                        self.listen_to_wake()
                        continue
                    self.hear(talking[fd])
                except Stopped as told:
                    poll.unregister(fd)
                    stop = self._better(stop, told)
                except OSError:
                    poll.unregister(fd)
                    stop = self._better(stop, self.closed_by(talking[fd], Certainty.SEEN))
                if self._abort is not None or stop.breakage.kind not in ("failed", "reset"):
                    return stop
        return stop

    def _better(self, stop: Stopped, found: Stopped) -> Stopped:
        if found.certainty <= stop.certainty:
            return stop
        if stop.certainty == Certainty.GUESSED:
            self._tell(found.breakage)
        return found

    def _tell(self, breakage: Breakage) -> None:
        """Tell the ranks that send to us why we leave; the first reason told is the one read."""
        frame = pack_breakage(breakage)
        with self._filing:
            connections = list(self.incoming.values())
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(frame)

    def leave(self, breakage: Breakage) -> None:
        """Tell the reason to whoever sends to us, end every stream and accept nobody any more.

        The sockets stay until `close`: closing one with unread data in it resets the connection,
        and a reset may overtake the reason.
        """
        if self._acceptor is not None:
            self._acceptor.stop()
        self._tell(breakage)
        for connection in (*self._outgoing.values(), *self.incoming.values()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close every socket and end the acceptor's thread; calling it again changes nothing."""
        with self._filing:
            # No way out for a second call: the first one may have been interrupted.
            self._is_closed = True
        if self._acceptor is not None:
            self._acceptor.stop()
        for connection in (*self._outgoing.values(), *self.incoming.values()):
            connection.close()
        self.wake.close()
        self._waker.close()


def _try_again(error: OSError) -> tuple[float, float]:
    """Return how long to try again after an error of connecting, and the wait between, seconds."""
    if error.errno in _NO_WAY:
        return NO_WAY_PATIENCE_S, SLICE_S
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return CROWDED_OUT_S, AGAIN_S
    return 0.0, 0.0


def _look_up(peers: Addresses, peer: int, links: Connections) -> str:
    """Return the address of a peer; raise Stopped if nothing tells it."""
    try:
        return peers[peer]
    except PeerFailed as error:
        raise Stopped(Breakage("failed", error.rank, error.reason)) from error
    except CollectiveTimeout as error:
        text = f"{error}, for {links.doing}"
        raise Stopped(Breakage("timeout", links.world_ranks[links.me.rank], text)) from error
