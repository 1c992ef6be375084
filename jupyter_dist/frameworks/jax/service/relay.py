"""Stands between JAX's client in this rank and its service: a lost connection ends no process.

JAX aborts the process when its connection to the service is lost. The relay's is not: when the
service ends, the client goes on to wait for it in silence.
"""

import contextlib
import errno
import os
import selectors
import socket
import threading
from collections.abc import Callable

from jupyter_dist.errors import FrameworkError
from jupyter_dist.model.hosts.addresses import join_address, split_address

CONNECT_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 1.0
_PIECE_BYTES = 1 << 16
_MOST_BYTES = 1 << 20
"""As long as so much waits to be sent on, nothing more is read."""
_PAUSE_S = 0.5
"""Who cannot be let in for lack of descriptors or memory is let in later."""
_LACKS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class _End:
    """One connection of a pair; `peer` is None when the service's is gone."""

    def __init__(self, connection: socket.socket, is_service: bool) -> None:
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # then it is slower, which is all
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.is_service = is_service
        self.peer: _End | None = None
        self.unsent = bytearray()

    @property
    def interest(self) -> int:
        """What is to be waited for; it is never nothing for both ends of a pair."""
        wants_more = self.peer is None or len(self.peer.unsent) < _MOST_BYTES
        reading = selectors.EVENT_READ if wants_more else 0
        return reading | (selectors.EVENT_WRITE if self.unsent else 0)


class Relay:
    """Listens on this host for JAX's client; everything is done by one thread."""

    def __init__(
        self,
        target: str,
        on_gone: Callable[[str], object] = lambda _: None,
        admits: Callable[[socket.socket], bool] = lambda _: True,
    ) -> None:
        """Reach for the service first; raises FrameworkError when it is not there, UsageError.

        `on_gone` is called once, by the relay's thread, with what has happened. A connection that
        `admits` refuses is closed: what the service made of it would be taken for its end.
        """
        self._family, self._service_address = _reach(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.address = join_address(*self._listener.getsockname()[:2])
        """What JAX's client is to connect to."""
        self.is_service_gone = False
        """The service has ended, or was cut off."""
        self._on_gone, self._admits = on_gone, admits
        self._ends: set[_End] = set()
        self._is_paused = False
        """The listener is not watched for a while: it would wake the thread again and again."""
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="jax-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cut all connections: a client of JAX that is still there ends the process."""
        self._waker.close()
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _serve(self) -> None:
        try:
            while True:
                ready = self._selector.select(_PAUSE_S if self._is_paused else None)
                self._go_on_listening()
                for key, events in ready:
                    if key.fileobj is self._wake:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._on_ready(key.data, events)
        finally:
            for end in list(self._ends):
                self._drop(end)
            self._listener.close()
            self._wake.close()
            self._selector.close()

    def _go_on_listening(self) -> None:
        if self._is_paused:
            with contextlib.suppress(OSError):  # tried again after the next pause
                self._selector.register(self._listener, selectors.EVENT_READ)
                self._is_paused = False

    def _accept(self) -> None:
        try:
            connection = self._listener.accept()[0]
        except OSError as error:
            if error.errno in _LACKS:
                self._selector.unregister(self._listener)
                self._is_paused = True
            return  # else it has gone before it was let in
        if not self._admits(connection):
            connection.close()
            return
        client = _End(connection, is_service=False)
        self._ends.add(client)
        try:
            service = _End(socket.socket(self._family, socket.SOCK_STREAM), is_service=True)
        except OSError as error:  # there are no more descriptors
            self._note_gone(error)
            self._watch(client)
            return
        client.peer, service.peer = service, client
        begun = service.connection.connect_ex(self._service_address)
        self._ends.add(service)
        for end in (client, service):
            self._watch(end)
        if begun not in (0, errno.EINPROGRESS):
            self._end(service, OSError(begun, os.strerror(begun)))

    def _watch(self, end: _End) -> None:
        """Wait for what is of interest now; a pair that cannot be waited for is cut in two."""
        if end not in self._ends:
            return
        try:
            self._register(end)
        except OSError as error:  # the client's end stays open, which is what matters
            self._note_gone(error)
            if (service := end if end.is_service else end.peer) is not None:
                self._end(service, error)

    def _register(self, end: _End) -> None:
        is_watched = end.connection.fileno() in self._selector.get_map()
        if end.interest and is_watched:
            self._selector.modify(end.connection, end.interest, end)
        elif end.interest:
            self._selector.register(end.connection, end.interest, end)
        elif is_watched:
            self._selector.unregister(end.connection)

    def _on_ready(self, end: _End, events: int) -> None:
        if end not in self._ends:
            return  # it was closed a moment ago
        try:
            if events & selectors.EVENT_WRITE:
                self._send(end)
            if events & selectors.EVENT_READ:
                self._receive(end)
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(end, error)

    def _receive(self, end: _End) -> None:
        """Pass on what has come; nobody takes it when the service is gone."""
        data = end.connection.recv(_PIECE_BYTES)
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was closed")
        if end.peer is not None:
            end.peer.unsent += data
            self._watch(end.peer)
            self._watch(end)

    def _send(self, end: _End) -> None:
        sent = end.connection.send(end.unsent)
        del end.unsent[:sent]
        self._watch(end)
        if end.peer is not None:
            self._watch(end.peer)

    def _end(self, end: _End, why: OSError) -> None:
        """Take in that a connection has ended; without the service its client is kept waiting."""
        if end not in self._ends:
            return
        self._drop(end)
        peer, end.peer = end.peer, None
        if peer is not None:
            peer.peer = None
        if end.is_service:
            self._note_gone(why)
        if peer is not None and end.is_service:
            self._watch(peer)
        elif peer is not None:
            self._drop(peer)

    def _note_gone(self, why: OSError) -> None:
        if not self.is_service_gone:
            self.is_service_gone = True
            self._on_gone(why.strerror or str(why))

    def _drop(self, end: _End) -> None:
        self._ends.discard(end)
        if end.connection.fileno() in self._selector.get_map():
            self._selector.unregister(end.connection)
        end.connection.close()


def _reach(target: str) -> tuple[socket.AddressFamily, tuple[str | int, ...]]:
    """Return the address at which the service answers; raises FrameworkError, UsageError."""
    try:
        with socket.create_connection(split_address(target), CONNECT_TIMEOUT_S) as attempt:
            return attempt.family, attempt.getpeername()
    except OSError as error:
        raise FrameworkError(
            f"JAX's coordination service at {target} cannot be reached from "
            f"{socket.gethostname()}: {error.strerror or error}. %dist_check tells whether "
            "hosts reach each other."
        ) from error
