"""Where the communicators of ranks are reached: who is told of whom, and how one asks for others.

Told to all of all, that would be most of what a start sends: it grows with the square of the ranks.
"""

from collections.abc import Iterable
from itertools import accumulate, groupby

import msgspec

FEW = 64
"""So many ranks are told of each other at once."""

Runs = tuple[tuple[int, int], ...]
"""Which ranks share an address, rank by rank: so many hosts in a row, with so many each."""


class Place(msgspec.Struct, frozen=True):
    """The address of a rank's communicator as `host:port`, and its host's name for people."""

    address: str
    host: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Place)


def ranks_to_know(rank: int, size: int) -> Iterable[int]:
    """Return the ranks of which this one of so many is told at once, itself among them.

    Of many those that are 1, 2, 4, … ranks on or back, round the ring: collectives send to those,
    and wait for these, whom they connect to as well where they have to wait for long.
    """
    if size <= FEW:
        return range(size)
    distances = [1 << power for power in range((size - 1).bit_length())]
    others = {(rank + each) % size for far in distances for each in (far, -far)}
    return (rank, *sorted(others))


def find_runs(hosts: Iterable[str]) -> Runs:
    """Return the runs of the hosts of ranks 0, 1, 2…; one that comes again is another one."""
    counts = [len(list(ranks)) for _, ranks in groupby(hosts)]
    return tuple((len(list(same)), count) for count, same in groupby(counts))


def ranks_by_host(runs: Runs) -> list[range]:
    """Return the ranks of each host that these runs tell of."""
    counts = [count for hosts, count in runs for _ in range(hosts)]
    ends = list(accumulate(counts))
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def key_of(rank: int) -> str:
    """Return the key of the value that tells where a rank is."""
    return f"place of rank {rank}"


def write_place(place: Place) -> bytes:
    """Return it as such a value."""
    return _encoder.encode(place)


def read_place(value: bytes) -> Place:
    """Read such a value."""
    return _decoder.decode(value)
