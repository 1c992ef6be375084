"""Who a client is on the wire: all its lines bear one name, and each a number of its own."""

import os
import secrets

_PASSER_BY = "passer-by"
_FAR = "far-client"


def new_client(*, is_passing: bool = False, is_far: bool = False) -> str:
    """Make a name that no other client has; the process can be read from it.

    A passing client does not count as present. A far one runs on another machine than the
    coordinator, and may come back after a long silence.
    """
    kind = _PASSER_BY if is_passing else _FAR if is_far else "client"
    return f"{kind}-{os.getpid()}-{secrets.token_hex(4)}"


def line_identity(client: str, number: int) -> bytes:
    """Return the ZeroMQ identity of one line of a client; it stays when the line is cut."""
    return f"{client}.{number}".encode()


def client_of(identity: bytes) -> bytes:
    """Return whose line this is; a line without such an identity is a client on its own."""
    return identity.rpartition(b".")[0] or identity


def is_passing(identity: bytes) -> bool:
    """Return whether this line is of someone who only looks in, and keeps no cluster alive."""
    return identity.startswith(_PASSER_BY.encode())


def is_far(identity: bytes) -> bool:
    """Return whether this line is of a client on another machine, which may sleep for a night."""
    return identity.startswith(_FAR.encode())
