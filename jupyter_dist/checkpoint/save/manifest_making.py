"""The leaves of a manifest, made of what all ranks have told and written."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from jupyter_dist.checkpoint.format.manifest import (
    Entry,
    Layout,
    Leaf,
    Piece,
    PlainEntry,
)
from jupyter_dist.checkpoint.save.merging import Merged, MergedLeaf
from jupyter_dist.checkpoint.save.writing import Written
from jupyter_dist.text.lists import group_pairs


def seem_same(leaf: MergedLeaf) -> bool:
    """Return whether a leaf has bytes that may be the same on all ranks."""
    return leaf.layout == "replicated" and not isinstance(leaf.first.entry, PlainEntry)


def settle_layouts(merged: Merged, differing: Collection[int]) -> Merged:
    """Store for each rank what seemed the same and is not: these, counted among all such leaves."""
    leaves, at = [], 0
    for leaf in merged.leaves:
        settled = leaf
        if seem_same(leaf):
            settled = leaf._replace(layout="per_rank") if at in differing else leaf
            at += 1
        leaves.append(settled)
    return merged._replace(leaves=tuple(leaves))


def record_leaves(merged: Merged, written: Sequence[Written]) -> tuple[Leaf, ...]:
    """Write down which leaf lies where; `written` is by rank."""
    pieces = group_pairs(
        ((leaf, rank), piece) for rank, each in enumerate(written) for leaf, piece in each.pieces
    )
    return tuple(
        _record(leaf, [pieces.get((at, rank), []) for rank in range(len(written))])
        for at, leaf in enumerate(merged.leaves)
    )


def _record(leaf: MergedLeaf, pieces: Sequence[Sequence[Piece]]) -> Leaf:
    """Describe a leaf; `pieces` are by the rank that has written them."""
    if leaf.layout == "per_rank":
        entries = [
            None if told is None else _complete(told.entry, "per_rank", own)
            for told, own in zip(leaf.by_rank, pieces, strict=True)
        ]
        return Leaf(leaf.path, tuple(entries))
    every = sorted((piece for own in pieces for piece in own), key=lambda piece: piece.box)
    entry = _complete(leaf.first.entry, leaf.layout, every)
    return Leaf(leaf.path, (replace(entry, shape=leaf.shape) if leaf.shape else entry,))


def _complete(entry: Entry, layout: Layout, pieces: Sequence[Piece]) -> Entry:
    if isinstance(entry, PlainEntry):
        return replace(entry, layout=layout)
    return replace(entry, layout=layout, pieces=tuple(pieces))
