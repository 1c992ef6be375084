"""Where ranks are reached: listeners and `host:port` texts."""

import errno
import socket

from jupyter_dist.errors import UsageError, no_free_port

_BACKLOG = 512


def bind_listener(host: str) -> socket.socket:
    """Return a listening TCP socket on a free port of `host`; bound first, told after.

    Raises OSError when the host is not an address of this machine.
    """
    family, kind, protocol, _name, address = socket.getaddrinfo(
        host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
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
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` or `[::1]:port`; raise UsageError when it is neither."""
    host, _colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isdecimal():
        raise UsageError(f"address {address!r}: accepted are host:port and [IPv6]:port.")
    return host, int(port)
