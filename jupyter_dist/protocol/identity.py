"""Who a client is on the wire: all its lines bear one name, and each a number of its own."""

import os
import secrets

_PASSER_BY = "passer-by"


def new_client(*, is_passing: bool = False) -> str:
    """Make a name that no other client has; the process can be read from it.

    Of one who is only passing nobody says that someone is there.
    """
    kind = _PASSER_BY if is_passing else "client"
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
