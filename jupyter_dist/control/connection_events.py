"""What libzmq tells of a connection: that it stands, and that it is cut."""

import struct
from typing import NamedTuple

import zmq

# As in libzmq's zmq_socket_monitor(3). pyzmq reads it too, in a module that loads asyncio and ssl.
_EVENT = struct.Struct("=HI")
CONNECTION_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


class ConnectionEvent(NamedTuple):
    """Something that has happened to a connection."""

    stands: bool
    """Both sides have proven themselves; else it is cut, or could not be made."""
    address: str
    """The other side's, as it was dialled."""


def read_event(monitor: "zmq.Socket[bytes]") -> ConnectionEvent | None:
    """Return the next event of CONNECTION_EVENTS, or None."""
    if not monitor.poll(0):
        return None
    told, address = monitor.recv_multipart()
    number = _EVENT.unpack(told)[0]
    return ConnectionEvent(number == zmq.EVENT_HANDSHAKE_SUCCEEDED, address.decode())
