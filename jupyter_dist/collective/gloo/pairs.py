"""The connections that gloo keeps to the other ranks: whose they are, and how to end them."""

import contextlib
import os
import re
import socket
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

_ADDRESS = re.compile(r"\[([^\[\]\s]+)\]:(\d+)")
_ADDRESS_BYTES = 64
"""Room for an address as text, IPv6 with a zone included."""
_FOREIGN_BYTES = 16 * 1024
"""Room for the addresses of what other threads connect meanwhile."""


class Pairs:
    """Handles of our own on gloo's sockets.

    Gloo offers no way to end a running call from outside, but a call ends when its connections
    are shut down. A handle shares the connection and keeps its number from being used again.
    """

    def __init__(self) -> None:
        self._found: list[socket.socket] = []
        self._confirmed: list[tuple[int, socket.socket]] = []
        self._ranks: dict[str, int] = {}

    def find(self, before: AbstractSet[str], limit: int) -> bytes:
        """Find what has been connected since; give the addresses of this side, for the others.

        They are as many whole lines as `limit` bytes hold.
        """
        self._found = _connections_since(before)
        lines = "".join(f"{_near(each)}\n" for each in self._found).encode()
        return lines[: lines.rfind(b"\n", 0, limit) + 1]

    def confirm(self, told: Mapping[int, bytes]) -> None:
        """Keep the connections whose far end another rank of the cluster has told to be its own.

        The others were opened by other threads meanwhile.
        """
        for rank, addresses in told.items():
            self._ranks |= dict.fromkeys(addresses.decode().split(), rank)
        found, self._found = self._found, []
        for connection in found:
            if (far := _far(connection)) in self._ranks:
                self._confirmed.append((self._ranks[far], connection))
            else:
                connection.close()

    def rank_in(self, text: str) -> int:
        """Return whose connection gloo speaks of; -1 when that is not clear.

        Gloo writes ports with their two bytes exchanged; a version that does not may come.
        """
        found = set()
        for host, port in _ADDRESS.findall(text):
            turned = int.from_bytes((int(port) & 0xFFFF).to_bytes(2, "big"), "little")
            found |= {self._ranks.get(_text((host, each))) for each in (int(port), turned)}
        ranks = [rank for rank in found if rank is not None]
        return ranks[0] if len(ranks) == 1 else -1

    def closed_by(self) -> int:
        """Return a rank that has closed its connection, and whose data has all been read; or -1."""
        for rank, connection in self._confirmed:
            try:
                if not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    return rank
            except BlockingIOError:
                continue
            except OSError:
                return rank
        return -1

    def shut_down(self) -> None:
        """End every connection, from any thread: whoever waits for one learns it at once."""
        for _rank, connection in self._confirmed:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connections; those that gloo still has stay open."""
        for connection in (*self._found, *(each for _rank, each in self._confirmed)):
            connection.close()


def room_for(size: int) -> int:
    """Return how many bytes each of `size` members gives to addresses: the same on all."""
    return size * _ADDRESS_BYTES + _FOREIGN_BYTES


def open_sockets() -> dict[str, int]:
    """Return the sockets of this process, as `socket:[INODE]`, with their descriptors."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            link = os.readlink(f"/proc/self/fd/{name}")
            if link.startswith("socket:"):
                found[link] = int(name)
    return found


def _connections_since(before: AbstractSet[str]) -> list[socket.socket]:
    connections = []
    for link, fd in open_sockets().items():
        if link in before:
            continue
        with contextlib.suppress(OSError):
            opened = socket.socket(fileno=os.dup(fd))
            is_tcp = opened.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and opened.type == socket.SOCK_STREAM and _far(opened):
                connections.append(opened)
            else:
                opened.close()
    return connections


def _near(connection: socket.socket) -> str:
    return _text(connection.getsockname())


def _far(connection: socket.socket) -> str:
    """Return the address of the other side; empty for a listener, or when it is gone."""
    try:
        return _text(connection.getpeername())
    except OSError:
        return ""


def _text(name: tuple[str, int]) -> str:
    return f"[{name[0]}]:{name[1]}"
