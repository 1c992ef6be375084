"""The sockets of one connection: closed by their owner, never by the garbage collector.

A collection that takes a context and its sockets together clears the context's list of open
sockets first; the context then waits for them for ever. So nothing here is left to a collection:
all clients of a process share one context, which only an explicit call ends, and sockets whose
owner was dropped are closed by a finalizer, which waits for nothing and takes no lock.
"""

import os
import sys
import threading
import weakref
from itertools import count
from typing import Any

import zmq

from jupyter_dist.control.context import new_context

_MOST_SOCKETS = 16_384
"""In one process; libzmq's own limit of 1,023 is that of 340 connections."""
_numbers = count(1)


class Sockets:
    """Sockets of a context of the caller's, or of the one that all clients share."""

    def __init__(self, owner: object, context: "zmq.Context[Any] | None" = None) -> None:
        self._pid = os.getpid()
        self._open: list[zmq.Socket[bytes]] = []
        self._context = _shared.lend(self) if context is None else context
        # Also what keeps these sockets, and their context, out of every collection until then.
        weakref.finalize(owner, self.close).atexit = False

    def make(self, kind: int) -> "zmq.Socket[bytes]":
        """Return a new socket, which keeps nobody waiting when it is closed."""
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        self._open.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        return socket

    def monitor(self, socket: "zmq.Socket[bytes]", events: int) -> "zmq.Socket[bytes]":
        """Return a socket that receives these events of another one."""
        address = f"inproc://jupyter-dist-monitor-{next(_numbers)}"
        monitor = self.make(zmq.PAIR)
        # Without a bound: libzmq's network thread would wait for ever for room for an event of a
        # connection that is not looked at.
        monitor.setsockopt(zmq.RCVHWM, 0)
        socket.monitor(address, events)
        monitor.connect(address)
        return monitor

    def close(self, linger_ms: int = 0) -> None:
        """Close all, giving what was sent this long to leave, without waiting; twice is fine."""
        if os.getpid() != self._pid:
            _carried.append(self)
            return
        closing, self._open = self._open, []
        for socket in closing:
            socket.monitor(None, 0)  # first: libzmq would wait for a reader of the next event
        for socket in closing:
            socket.close(linger_ms)
        _shared.take_back(self)


_carried: list[Sockets] = []
"""Those that a fork has copied: they are the parent's, and must not even be looked at here."""


class _SharedContext:
    """The context of all clients of this process."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # a collection may happen within
        self._context: zmq.Context[Any] | None = None
        self._borrowers: set[Sockets] = set()
        self._copied: list[Any] = []
        if sys.platform != "win32":  # where no process is forked
            os.register_at_fork(after_in_child=self._forget)

    def lend(self, borrower: Sockets) -> "zmq.Context[Any]":
        """Return the context; it does not end before it is taken back."""
        with self._guard:
            if self._context is None:
                self._context = new_context()
                self._context.set(zmq.MAX_SOCKETS, _MOST_SOCKETS)
            self._borrowers.add(borrower)
            return self._context

    def take_back(self, borrower: Sockets) -> None:
        """Note that its sockets are closed; takes no lock, as a finalizer may call it."""
        self._borrowers.discard(borrower)

    def end_if_unused(self) -> None:
        """End it when no socket of it is open, at most after the time that they linger."""
        with self._guard:
            if self._context is not None and not self._borrowers:
                context, self._context = self._context, None
                context.term()

    def _forget(self) -> None:
        """Leave the parent's context alone in a child; threads did not come along."""
        self._copied.append((self._context, self._borrowers))
        self._guard = threading.RLock()
        self._context, self._borrowers = None, set()


_shared = _SharedContext()


def end_unused_context() -> None:
    """End the context of this process's clients when none of their connections is open."""
    _shared.end_if_unused()
