"""Where a relay listens for its ranks, and where it dials."""

import contextlib
import os
import socket
from typing import Any, NamedTuple

import zmq

from jupyter_dist.protocol.births import beats_path
from jupyter_dist.protocol.credentials import Credentials


class Home(NamedTuple):
    """Where the coordinator is, and how a relay proves itself there."""

    address: str
    beats_address: str
    credentials: Credentials
    identity: bytes
    alive_interval_s: float = 1.0
    """How often ranks are told that it lives."""


class Doors(NamedTuple):
    """Unix sockets at which ranks find their relay."""

    messages: socket.socket
    beats: socket.socket

    def close(self) -> None:
        """Close both."""
        for door in self:
            door.close()


def open_doors(path: str) -> Doors:
    """Return sockets that listen at this path and beside it, in place of those of another relay.

    Raise OSError, as for a path too long.
    """
    with contextlib.ExitStack() as stack:
        messages, beats = [
            stack.enter_context(contextlib.closing(_listen_at(each)))
            for each in (path, beats_path(path))
        ]
        stack.pop_all()
    return Doors(messages, beats)


def let_in(socket: "zmq.Socket[Any]", door: socket.socket) -> None:
    """Have a socket take in who comes to a door, which is closed; its options are set before."""
    path = door.getsockname()
    socket.setsockopt(zmq.USE_FD, door.detach())
    socket.bind(f"ipc://{path}")


def _listen_at(path: str) -> socket.socket:
    if os.path.exists(path):
        os.unlink(path)  # of a relay that has ended
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(path)
        listening.listen(socket.SOMAXCONN)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
