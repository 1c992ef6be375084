"""What ranks tell each other of their trees, in few bytes: most of it all of them have alike."""

import zlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from jupyter_dist.checkpoint.format.manifest import Node
from jupyter_dist.checkpoint.save.merging import LeafReport, TreeReport

_LEVEL = 1
T = TypeVar("T")


class Compared(msgspec.Struct, frozen=True):
    """What a rank tells when all compare what they have."""

    is_seen: bool
    """This rank sees what rank 0 has put into the directory."""
    summary: bytes
    """Of the digests of all leaves that seem to be the same on all ranks."""
    first: bytes
    """These digests, of rank 0."""


class Committed(msgspec.Struct, frozen=True):
    """What rank 0 tells at the end."""

    seconds: float
    nbytes: int
    manifest: bytes
    """For hosts that do not see it, packed; empty if it is too large."""


class _Difference(msgspec.Struct, frozen=True, array_like=True):
    """What a rank's tree has that rank 0's has not."""

    leaves: tuple[int | LeafReport, ...]
    """A number: the leaf so many places further on is the same with rank 0."""
    structure: tuple[Node, ...] = ()
    """Empty: that of rank 0."""


def pack(value: object) -> bytes:
    """Return a value in few bytes; see unpack."""
    return zlib.compress(msgspec.msgpack.encode(value), _LEVEL)


def unpack(data: bytes, kind: type[T]) -> T:
    """Return a value of this type that `pack` has made small."""
    return msgspec.msgpack.decode(zlib.decompress(data), type=kind)


def pack_difference(told: TreeReport, first: TreeReport) -> bytes:
    """Return what tells a rank's tree apart from that of rank 0; empty: nothing does."""
    if told == first:
        return b""
    places = {leaf.path: number for number, leaf in enumerate(first.leaves)}
    leaves: list[int | LeafReport] = []
    for number, leaf in enumerate(told.leaves):
        place = places.get(leaf.path)
        is_same = place is not None and first.leaves[place] == leaf
        leaves.append(place - number if is_same and place is not None else leaf)
    structure = () if told.structure == first.structure else (told.structure,)
    return pack(_Difference(tuple(leaves), structure))


def unpack_difference(data: bytes, first: TreeReport) -> TreeReport:
    """Return the tree of a rank; what it has alike with rank 0 is the same object."""
    if not data:
        return first
    difference = unpack(data, _Difference)
    leaves = tuple(
        first.leaves[number + each] if isinstance(each, int) else each
        for number, each in enumerate(difference.leaves)
    )
    return TreeReport((difference.structure or (first.structure,))[0], leaves)


def pack_digests(digests: Sequence[str]) -> bytes:
    """Put digests in hex behind each other."""
    return bytes.fromhex("".join(digests))


def find_differing(own: bytes, first: bytes, count: int) -> list[int]:
    """Return which of so many digests, one behind the other, are not the same."""
    size = len(first) // max(1, count)
    return [
        number
        for number in range(count)
        if own[number * size : (number + 1) * size] != first[number * size : (number + 1) * size]
    ]
