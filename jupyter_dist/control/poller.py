"""Wait for sockets and for other threads in one place."""

import contextlib
import math
import socket
from typing import Any, Protocol

import zmq

SLICE_S = 0.2
"""No wait of a client is longer, so that Ctrl-C always works."""


class Source(Protocol):
    """Something a Poller can wait for."""

    @property
    def pollable(self) -> Any:
        """A ZeroMQ socket or a file descriptor."""


class Waker:
    """Wakes a Poller from any thread or signal handler."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    @property
    def pollable(self) -> int:
        """The descriptor that becomes readable."""
        return self._reader.fileno()

    def wake(self) -> None:
        """Make the next or running wait return; safe from any thread."""
        with contextlib.suppress(OSError):  # a full pipe wakes as well; a closed one is ending
            self._writer.send(b"!")

    def clear(self) -> None:
        """Forget past wakes."""
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)  # if there are more, the next wait returns once too often

    def close(self) -> None:
        """Close both ends."""
        self._reader.close()
        self._writer.close()


class Poller:
    """Waits for any of its sources; each ready source is returned as itself."""

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._sources: dict[Any, Source] = {}

    def add(self, source: Source) -> None:
        """Wait for this source from now on."""
        self._sources[source.pollable] = source
        self._poller.register(source.pollable, zmq.POLLIN)

    def wait(self, timeout_s: float) -> list[Source]:
        """Return the sources that have something, at most after `timeout_s`."""
        # Rounded up: what is due would else be waited for in many waits of no time.
        ready = self._poller.poll(max(0, math.ceil(timeout_s * 1000)))
        return [self._sources[key] for key, _ in ready]
