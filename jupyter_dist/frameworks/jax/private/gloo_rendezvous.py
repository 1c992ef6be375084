"""How the ranks of a gloo clique of JAX find each other, and how those who wait there are released.

Each puts its address into the coordination service and connects to the others in their order: who
waits for an address that nobody puts, or for a connection that nobody makes, has no connection yet
that could be shut down.
"""

import contextlib
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

_CLIQUES = "cpu:gloo"
"""Under this, the coordination service has `0,2048/1`: the address of member 1 of two devices."""
_NO_ADDRESS = struct.pack("<Q1sQ", 1, b"-", 0)
"""A host's name, and an address of no bytes, which gloo refuses."""
_ADDRESS_BYTES = 136
"""A sockaddr_storage and a number."""
_KNOCK_TIMEOUT_S = 0.2


def release_members() -> None:
    """Let this rank, where it waits for members of a clique to connect, see them fail.

    Does not return while the coordination service does not answer.
    """
    distributed = sys.modules.get("jax._src.distributed")
    client = getattr(getattr(distributed, "global_state", None), "client", None)
    if client is None or not hasattr(client, "key_value_dir_get_bytes"):
        return
    try:
        present: dict[str, bytes] = dict(client.key_value_dir_get_bytes(_CLIQUES))
    except RuntimeError:  # the service is gone
        return
    own_devices = _list_own_devices()
    for clique in {key.rpartition("/")[0] for key in present}:
        for member, device in enumerate(clique.rpartition("/")[2].split(",")):
            address = present.get(f"{clique}/{member}")
            if address is None:
                with contextlib.suppress(RuntimeError):  # else another rank was faster
                    client.key_value_set_bytes(f"{clique}/{member}", _NO_ADDRESS)
            elif device in own_devices:
                _knock(address)


def _list_own_devices() -> set[str]:
    jax: Any = sys.modules.get("jax")
    try:
        return {str(device.id) for device in jax.local_devices()}
    except RuntimeError:  # its backends are gone
        return set()


def _knock(address: bytes) -> None:
    """Connect to our own listener in place of each other member, and hang up."""
    for place, number in _read_pairs(address):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(place, timeout=_KNOCK_TIMEOUT_S) as connection,
        ):
            connection.sendall(struct.pack("<q", number))


def _read_pairs(address: bytes) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield where a member listens, and by which number it knows each other one.

    That is a host's name and an address, each after its length, and the numbers; nothing where it
    is something else.
    """
    at = 8 + int.from_bytes(address[:8], "little")
    if int.from_bytes(address[at : at + 8], "little") != _ADDRESS_BYTES:
        return
    storage, numbers = address[at + 8 : at + 136], address[at + 8 + _ADDRESS_BYTES :]
    family, port = struct.unpack("=H", storage[:2])[0], struct.unpack("!H", storage[2:4])[0]
    if family == socket.AF_INET:
        host = socket.inet_ntop(family, storage[4:8])
    elif family == socket.AF_INET6:
        host = socket.inet_ntop(family, storage[8:24])
    else:
        return
    for (number,) in struct.iter_unpack("<q", numbers[: len(numbers) // 8 * 8]):
        if number >= 0:
            yield (host, port), number
