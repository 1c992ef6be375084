"""Where ranks are reached: listeners and `host:port` texts."""

import errno
import socket

from jupyter_dist.errors import no_free_port
from jupyter_dist.model.hosts.addresses import join_address

_BACKLOG = 512


def bind_listener(host: str) -> socket.socket:
    """Return a listening TCP socket on a free port of `host`; bound first, told after.

    Raises OSError when the host is not an address of this machine.
    """
    # As bytes: for a text each rank would load the rules for names of hosts in all scripts.
    family, kind, protocol, _name, address = socket.getaddrinfo(
        host.encode(), 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise OSError(error.errno, no_free_port(host)) from error
        raise
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the address of a listener as `host:port`, with IPv6 hosts in brackets."""
    return join_address(*listener.getsockname()[:2])
