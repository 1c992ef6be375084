"""The leaves of a checkpoint as this rank takes them: what it needs of each, and what it makes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import msgspec
import numpy as np

from jupyter_dist.checkpoint.format.manifest import (
    ArrayEntry,
    Box,
    Entry,
    Leaf,
    Manifest,
    Node,
    ObjectEntry,
    Piece,
    PlainEntry,
    value_of,
)
from jupyter_dist.checkpoint.format.part_file import Bytes
from jupyter_dist.checkpoint.format.sharding import box_shape, pieces_for, slices
from jupyter_dist.checkpoint.restore.placement import place
from jupyter_dist.checkpoint.values.blocks import Array, Placement, Seat, stored_dtype
from jupyter_dist.errors import CheckpointFailed
from jupyter_dist.model.hosts.rank import number_ranks
from jupyter_dist.model.ranks.user_errors import PASSED_ON, name_error

Got = Mapping[Piece, Bytes]


class NotRestored(msgspec.Struct, frozen=True):
    """What stands in a restored tree for a value in which this rank had no part."""

    path: str
    reason: str


class NotLoaded(msgspec.Struct, frozen=True):
    """A pickled object that was not asked for: to load one runs code that the checkpoint names."""

    path: str
    type_name: str

    @property
    def reason(self) -> str:
        """Return what it is, and what to do to get it."""
        return (
            f"a pickled {self.type_name}: loading one runs code; objects=True (%dist_restore "
            "--objects) does it if you trust who saved"
        )


class Taken(NamedTuple):
    """What this rank does with one leaf."""

    pieces: tuple[Piece, ...]
    build: Callable[[Got], Any]


def structure_of(manifest: Manifest, rank: int) -> Node:
    """Return the containers of a rank's tree; a rank that was not there takes those of rank 0."""
    if len(manifest.structure) == 1 or rank >= manifest.world_size:
        return manifest.structure[0]
    return manifest.structure[rank]


def take_leaf(leaf: Leaf, seat: Seat, like: Any = None, *, objects: bool = False) -> Taken:
    """Return what this rank needs for a leaf and what it makes of it; see placing.place for `like`.

    With `objects` it unpickles what is a pickle.
    """
    entry = _entry_of(leaf, seat)
    match entry:
        case None:
            return _given(NotRestored(leaf.path, _why_not(leaf, seat)))
        case PlainEntry():
            return _given(value_of(entry))
        case ObjectEntry():
            if not objects:
                return _given(NotLoaded(leaf.path, entry.type_name))
            return _object(leaf.path, entry)
        case ArrayEntry():
            return _array(entry, place(leaf.path, entry, seat, like))
        case _:
            assert_never(entry)


def left_over(leaf: Leaf, seat: Seat) -> bool:
    """Return whether ranks that are no more had a part of their own in this."""
    return len(leaf.by_rank) > seat.world_size and any(leaf.by_rank[seat.world_size :])


def _entry_of(leaf: Leaf, seat: Seat) -> Entry | None:
    first = leaf.by_rank[0]
    if len(leaf.by_rank) == 1 and (first is None or first.layout != "per_rank"):
        return first
    return leaf.by_rank[seat.rank] if seat.rank < len(leaf.by_rank) else None


def _why_not(leaf: Leaf, seat: Seat) -> str:
    having = [rank for rank, entry in enumerate(leaf.by_rank) if entry is not None]
    return f"rank {seat.rank} had no part: only {number_ranks(having)} saved one"


def _given(value: Any) -> Taken:
    return Taken((), lambda _: value)


def _object(path: str, entry: ObjectEntry) -> Taken:
    def load(got: Got) -> Any:
        import cloudpickle

        try:
            return cloudpickle.loads(b"".join(got[piece].data for piece in entry.pieces))
        except PASSED_ON:
            raise
        except BaseException as error:
            raise CheckpointFailed(
                f"{path} ({entry.type_name}) cannot be rebuilt here: {name_error(error)}. "
                "The module that defines it must be importable; restore without objects "
                "to leave it out."
            ) from error

    return Taken(entry.pieces, load)


def _array(entry: ArrayEntry, placement: Placement) -> Taken:
    dtype = stored_dtype(entry.dtype)
    parts = [list(pieces_for(box, entry.pieces)) for box in placement.boxes]
    pieces = tuple(dict.fromkeys(part.piece for own in parts for part in own))

    def build(got: Got) -> Any:
        return placement.build([_assemble(box, dtype, entry, got) for box in placement.boxes])

    return Taken(pieces, build)


def _assemble(box: Box, dtype: "np.dtype[Any]", entry: ArrayEntry, got: Got) -> Array:
    """Put a block together of the pieces that have some of it."""
    parts = list(pieces_for(box, entry.pieces))
    if len(parts) == 1 and parts[0].piece.box == box:
        return _as_block(parts[0].piece, dtype, got)
    block = np.empty(box_shape(box), dtype)
    for part in parts:
        block[slices(part.target)] = _as_block(part.piece, dtype, got)[slices(part.source)]
    return block


def _as_block(piece: Piece, dtype: "np.dtype[Any]", got: Got) -> Array:
    return got[piece].view(dtype).reshape(box_shape(piece.box))


def pieces_of(leaves: Sequence[Leaf]) -> dict[Piece, str]:
    """Return every piece of a checkpoint, with the path of its leaf."""
    return {
        piece: leaf.path
        for leaf in leaves
        for entry in leaf.by_rank
        if entry is not None and not isinstance(entry, PlainEntry)
        for piece in entry.pieces
    }
