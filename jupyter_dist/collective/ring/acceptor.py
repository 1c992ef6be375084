"""Who may come in: a thread that accepts connections and lets only proven ranks through."""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable

from jupyter_dist.collective.ring import handshake
from jupyter_dist.collective.ring.handshake import Membership

STRANGER_PATIENCE_S = 2.0
"""How long a connection may be silent."""
GUEST_PATIENCE_S = 60.0
"""How long one that knows whom it has reached may take to prove itself: where hundreds of ranks
share two cores, it may have to wait for one. A connection dropped then fails their collective."""

_MOST_GUESTS = 128
"""Unproven connections kept at a time; beyond it the oldest that is silent goes, then the oldest.
The cells of this rank need file descriptors, too, and often have 1024 in all."""


class _Guest:
    """A connection that has not proven itself yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.leaves_at = time.monotonic() + STRANGER_PATIENCE_S
        self.hello = b""
        self.challenge = b""
        self._received = b""

    def advance(self, me: Membership) -> int | None:
        """Take in what came; return the rank once proven, None before; raise OSError to refuse."""
        wanted = handshake.PROOF_BYTES if self.hello else handshake.HELLO_BYTES
        # Never more than that: what follows the proof is already the first header.
        received = self.connection.recv(wanted - len(self._received))
        if not received:
            raise ConnectionResetError("left before the handshake was done")
        self._received += received
        if len(self._received) < wanted:
            return None
        message, self._received = self._received, b""
        if self.hello:
            if not handshake.is_proof(me, self.hello, self.challenge, message):
                raise ConnectionRefusedError("does not know the key")
            return handshake.read_hello(me, self.hello)
        if handshake.read_hello(me, message) is None:
            raise ConnectionRefusedError("not meant for this communicator")
        self.hello, self.leaves_at = message, time.monotonic() + GUEST_PATIENCE_S
        self.challenge = handshake.write_challenge(me, message)
        self.connection.send(self.challenge)
        return None


class Acceptor:
    """Accept connections in a daemon thread and hand proven ones on; drop strangers."""

    def __init__(
        self,
        listener: socket.socket,
        me: Membership,
        admit: Callable[[int, socket.socket], None],
    ) -> None:
        self._listener = listener
        self._me = me
        self._admit = admit
        self._guests: dict[socket.socket, _Guest] = {}
        self._selector = selectors.DefaultSelector()
        self._stopped, self._stop = socket.socketpair()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._thread = threading.Thread(
            target=self._run, name=f"collective-acceptor-{me.rank}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Accept nobody any more; the listener is closed when this returns."""
        if self._stop.fileno() < 0:
            return
        with contextlib.suppress(OSError):  # a first call was interrupted: it has stopped already
            self._stop.send(b"\0")
        self._thread.join()
        self._stop.close()

    def _run(self) -> None:
        try:
            while self._serve_once():
                pass
        finally:
            for guest in list(self._guests.values()):
                self._dismiss(guest)
            self._selector.close()
            self._listener.close()
            self._stopped.close()

    def _serve_once(self) -> bool:
        for key, _events in self._selector.select(self._next_departure_s()):
            if key.fileobj is self._stopped:
                return False
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._hear(key.data)
        now = time.monotonic()
        for guest in list(self._guests.values()):
            if guest.leaves_at <= now:
                self._dismiss(guest)
        return True

    def _next_departure_s(self) -> float | None:
        if not self._guests:
            return None
        leaves_at = min(guest.leaves_at for guest in self._guests.values())
        return max(0.0, leaves_at - time.monotonic())

    def _accept(self) -> None:
        try:
            connection, _address = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:
            # Out of file descriptors, most likely; the caller waits in the backlog meanwhile.
            time.sleep(0.05)
            return
        if len(self._guests) >= _MOST_GUESTS:
            guests = self._guests.values()
            silent = (guest for guest in guests if not guest.hello)
            self._dismiss(next(silent, next(iter(guests))))
        connection.setblocking(False)
        guest = _Guest(connection)
        self._guests[connection] = guest
        self._selector.register(connection, selectors.EVENT_READ, guest)
        self._hear(guest)  # a rank has said hello by now, before others come that are silent

    def _hear(self, guest: _Guest) -> None:
        if guest.connection not in self._guests:
            return
        try:
            rank = guest.advance(self._me)
        except BlockingIOError:
            return
        except OSError:
            self._dismiss(guest)
            return
        if rank is not None:
            self._selector.unregister(guest.connection)
            del self._guests[guest.connection]
            self._admit(rank, guest.connection)

    def _dismiss(self, guest: _Guest) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(guest.connection)
        self._guests.pop(guest.connection, None)
        guest.connection.close()
