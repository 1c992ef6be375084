"""What strangers may cost on the ports of a coordinator before they have proven themselves.

Time: gRPC and libzmq end a handshake that takes longer than 5 s. Lines of the log: none. File
descriptors: here it is seen to that unproven connections take a part of them only, so that those
who hold a key still get in.
"""

import contextlib
import os
import socket
import struct
import sys
import threading
from collections.abc import Collection, Iterator
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import unquote

from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.launch.processes.open_files import soft_limit

HANDSHAKE_MS = 5000
"""A connection that has not proven itself for so long is ended."""
_MOST = 256
"""So many unproven connections are kept, or a quarter of what the limit of open files allows; and
as many more, up to another quarter, as hosts and ranks of the cluster may have under way at once.
"""
_BY_HOST = 8
"""Its agent tries each address that the coordinator may have, and each port there."""
_BY_RANK = 2
"""Its control channel and its heartbeats."""
_ZMTP_BYTES = 300
"""Greeting and HELLO are 266: who has sent more has proven a key, or is turned away at once."""
_CALM_S, _CROWDED_S = 1.0, 0.1
_SHARE = 100
"""A look at all connections may take this part of the time until the next one."""
_FOLDER = "/proc/self/fd" if sys.platform.startswith("linux") else "/dev/fd"
_RECEIVED = struct.Struct("128xQ")
"""`tcpi_bytes_received` in Linux's `struct tcp_info`."""
_MOST_NUMBERS = 1 << 16

Address = tuple[str, int]


def load_grpc_quietly() -> None:
    """Import gRPC so that it writes no line for each stranger, which it does without bound.

    It reads the environment once, as it is loaded; nothing of this is left for our children.
    """
    if "GRPC_VERBOSITY" in os.environ:
        return
    os.environ["GRPC_VERBOSITY"] = "NONE"
    try:
        import grpc  # noqa: F401
    finally:
        del os.environ["GRPC_VERBOSITY"]


class Proven:
    """Addresses from which agents that were admitted attend; used by the threads of gRPC."""

    def __init__(self) -> None:
        self._addresses: dict[Address, int] = {}
        self._lock = threading.Lock()

    def __contains__(self, address: Address) -> bool:
        return address in self._addresses

    def enter(self, context: Any) -> None:
        """Note from where this call of gRPC comes, until it ends."""
        address = read_peer(context.peer())
        with self._lock:
            self._addresses[address] = self._addresses.get(address, 0) + 1
        if not context.add_callback(lambda: self._leave(address)):
            self._leave(address)  # it has ended meanwhile

    def _leave(self, address: Address) -> None:
        with self._lock:
            left = self._addresses.pop(address, 0) - 1
            if left > 0:
                self._addresses[address] = left


class _Stranger(NamedTuple):
    is_talking: bool
    seen_s: float
    fd: int
    address: Address


class ConnectionLimits:
    """Ends unproven connections when there are too many: silent ones first, then the oldest."""

    def __init__(self, proven: Proven, agents_port: int, other_ports: Collection[int]) -> None:
        self._proven = proven
        self._agents_port = agents_port
        # Only Linux tells what a connection has received; elsewhere libzmq's own limit must do.
        self._other_ports = frozenset(other_ports if _FOLDER.startswith("/proc") else ())
        self._limit = soft_limit()
        self._of_strangers = self._most = max(16, min(_MOST, self._limit // 4))
        self._seen: dict[tuple[int, Address], float] = {}
        self._next_s = 0.0
        self._is_crowded = False

    def expect(self, hosts: int, ranks: int) -> None:
        """Take in how large the cluster is: all of it may connect at once, at the start or again.

        Until they have proven themselves its own connections cannot be told from a stranger's.
        """
        expected = _BY_HOST * hosts + _BY_RANK * ranks
        self._most = self._of_strangers + min(expected, self._limit // 4)

    def look(self, now_s: float) -> float:
        """End the unproven connections that are too many; cheap as long as there are few at all.

        Returns when to look again, if that is to be soon.
        """
        # On Windows a process does not run out of sockets as soon, and cannot list them.
        if now_s >= self._next_s and sys.platform != "win32":
            self._look(now_s)
        return self._next_s if self._is_crowded else NEVER

    def _look(self, now_s: float) -> None:
        began_s = perf_counter()
        excess = 0
        numbers = self._open_files()
        if len(numbers) > self._most:
            found = sorted(self._find(numbers, now_s))
            self._seen = {(stranger.fd, stranger.address): stranger.seen_s for stranger in found}
            excess = max(0, len(found) - self._most)
            for stranger in found[:excess]:
                _end(stranger)
        cost_s = (perf_counter() - began_s) * _SHARE
        self._is_crowded = excess > 0
        self._next_s = now_s + (_CROWDED_S if excess else max(_CALM_S, cost_s))

    def _open_files(self) -> Collection[int]:
        with contextlib.suppress(OSError):  # newer systems tell the number at once
            if 0 < os.stat(_FOLDER).st_size <= self._most:
                return ()
        try:
            return [int(name) for name in os.listdir(_FOLDER)]
        except OSError:  # not even a file descriptor for this is left
            return range(min(self._limit, _MOST_NUMBERS))

    def _find(self, numbers: Collection[int], now_s: float) -> Iterator[_Stranger]:
        for fd in numbers:
            with contextlib.suppress(OSError), _borrow(fd) as connection:
                port, address = _ends(connection)
                if port == self._agents_port:
                    is_proven = address in self._proven
                    received = _received(connection)
                elif port in self._other_ports:
                    received = _received(connection)
                    is_proven = received > _ZMTP_BYTES
                else:
                    continue
                if not is_proven:
                    seen_s = self._seen.get((fd, address), now_s)
                    yield _Stranger(received > 0, seen_s, fd, address)


@contextlib.contextmanager
def _borrow(fd: int) -> Iterator[socket.socket]:
    """Look at a file descriptor of someone else as a socket; OSError when it is none."""
    connection = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fd)
    try:
        yield connection
    finally:
        connection.detach()


def _ends(connection: socket.socket) -> tuple[int, Address]:
    """Return our port and the other's address; raise OSError for what is no such connection."""
    own, peer = connection.getsockname(), connection.getpeername()
    if not (isinstance(own, tuple) and isinstance(peer, tuple) and isinstance(peer[0], str)):
        raise OSError("no connection of TCP")  # one of Unix, or of netlink
    return own[1], (_plain(peer[0]), peer[1])


def _received(connection: socket.socket) -> int:
    if not hasattr(socket, "TCP_INFO"):
        return 0
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
    return int(_RECEIVED.unpack(told)[0]) if len(told) == _RECEIVED.size else _ZMTP_BYTES + 1


def _end(stranger: _Stranger) -> None:
    """Shut the connection down; its owner sees that and closes it."""
    with contextlib.suppress(OSError), _borrow(stranger.fd) as connection:
        if _ends(connection)[1] == stranger.address:  # the number may be another's by now
            connection.shutdown(socket.SHUT_RDWR)


def read_peer(peer: str) -> Address:
    """Read how gRPC names the other end, as `ipv4:10.0.0.1:5000` or `ipv6:%5B::1%5D:5000`."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    return _plain(host.strip("[]")), int(port) if port.isdecimal() else 0


def _plain(host: str) -> str:
    return host.partition("%")[0].removeprefix("::ffff:")
