"""The TCP connections of gloo, which nobody else can close: found by the poller that watches them.

Gloo makes one epoll instance for each device and registers every connection with it; the kernel
lists them in /proc/self/fdinfo. A collective that waits for a peer raises as soon as a connection
of its own is shut down.
"""

import contextlib
import os
import socket
from collections.abc import Iterator

_FDS = "/proc/self/fd"


class GlooSockets:
    """Connections that were made through devices which were made while `watch` was open."""

    def __init__(self) -> None:
        self._pollers: set[int] = set()
        self._before: set[int] | None = None
        """Those of others, while `watch` is open: gloo may wait for its peers in there."""

    def __bool__(self) -> bool:
        return bool(self._pollers)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Note the pollers that come into being."""
        before = self._before = _list_pollers()
        try:
            yield
        finally:
            self._pollers |= _list_pollers() - before
            self._before = None

    def forget(self) -> None:
        """Forget all: the devices are gone."""
        self._pollers.clear()

    def shut_down(self) -> int:
        """Shut every connection down, from any thread; give how many there were."""
        count = 0
        before, pollers = self._before, set(self._pollers)
        if before is not None:
            pollers |= _list_pollers() - before
        for poller in pollers:
            for descriptor in _list_watched(poller):
                count += shut_down(descriptor)
        return count


def _list_pollers() -> set[int]:
    """Return the descriptors of the epoll instances of this process."""
    found = set()
    for name in os.listdir(_FDS):
        with contextlib.suppress(OSError):  # closed meanwhile
            if "eventpoll" in os.readlink(f"{_FDS}/{name}"):
                found.add(int(name))
    return found


def _list_watched(poller: int) -> list[int]:
    """Return the descriptors that are registered with an epoll instance."""
    try:
        with open(f"/proc/self/fdinfo/{poller}") as file:
            return [int(line.split()[1]) for line in file if line.startswith("tfd:")]
    except OSError:
        return []


def shut_down(descriptor: int, to: tuple[str, int] | None = None) -> bool:
    """Shut a connection down, if it leads there; False where the descriptor is no such one."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:  # a pipe, or closed
        copy = os.dup(descriptor)
        stack.callback(os.close, copy)
        connection = socket.socket(fileno=copy)
        stack.callback(connection.detach)
        peer = connection.getpeername()
        # torch connects by IPv6 sockets to IPv4 addresses, too.
        is_there = len(peer) > 1 and (str(peer[0]).removeprefix("::ffff:"), peer[1]) == to
        if to is None or is_there:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False
