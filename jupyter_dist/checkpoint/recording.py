"""The manifest, made of what all ranks have told and written: the same on each of them."""

from collections.abc import Collection, Sequence
from typing import Literal, cast

import msgspec

from jupyter_dist.checkpoint.merging import LeafTold, Merged, MergedLeaf
from jupyter_dist.checkpoint.storage import Opening
from jupyter_dist.checkpoint.writing import Written
from jupyter_dist.model.checkpoint_manifest import (
    ArrayEntry,
    Entry,
    Layout,
    Leaf,
    Library,
    Manifest,
    ObjectEntry,
    Piece,
)


def seem_same(leaf: MergedLeaf) -> bool:
    """Tell whether a leaf has bytes that may be the same on all ranks."""
    return leaf.layout == "replicated" and leaf.first.kind != "plain"


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


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a checkpoint without its leaves."""

    opening: Opening
    kind: Literal["tree", "variables"]
    marks: dict[str, int | None]
    cluster: str
    world_size: int
    generation: int
    hosts: tuple[str, ...]
    is_shared: bool


def make_manifest(about: About, merged: Merged, written: Sequence[Written]) -> Manifest:
    """Write down which leaf lies where; `written` is by rank."""
    pieces: dict[tuple[int, int], list[Piece]] = {}
    for rank, each in enumerate(written):
        for leaf, piece in each.pieces:
            pieces.setdefault((leaf, rank), []).append(piece)
    opening = about.opening
    return Manifest(
        id=opening.id,
        step=opening.step,
        kind=about.kind,
        saved_at=opening.saved_at,
        cluster=about.cluster,
        world_size=about.world_size,
        generation=about.generation,
        hosts=about.hosts,
        is_shared=about.is_shared,
        structure=merged.structures,
        leaves=tuple(
            _record(leaf, [pieces.get((at, rank), []) for rank in range(about.world_size)])
            for at, leaf in enumerate(merged.leaves)
        ),
        files=tuple(file for each in written for file in each.files),
        versions=opening.versions,
        cells=opening.cells,
        marks=about.marks,
    )


def _record(leaf: MergedLeaf, pieces: Sequence[Sequence[Piece]]) -> Leaf:
    """Describe a leaf; `pieces` are by the rank that has written them."""
    if leaf.layout == "per_rank":
        entries = [
            None if told is None else _entry(told, "per_rank", told.shape, own)
            for told, own in zip(leaf.by_rank, pieces, strict=True)
        ]
        return Leaf(leaf.path, tuple(entries))
    first = leaf.first
    shape = leaf.shape if leaf.layout == "sharded" else first.shape
    every = sorted((piece for own in pieces for piece in own), key=lambda piece: piece.box)
    return Leaf(leaf.path, (_entry(first, leaf.layout, shape, every),))


def _entry(
    told: LeafTold, layout: Layout, shape: tuple[int, ...], pieces: Sequence[Piece]
) -> Entry:
    if told.kind == "plain":
        assert told.plain is not None
        return msgspec.structs.replace(told.plain, layout=layout)
    if told.kind == "object":
        return ObjectEntry(type_name=told.type_name, layout=layout, pieces=tuple(pieces))
    return ArrayEntry(
        dtype=told.dtype,
        shape=shape,
        layout=layout,
        library=cast("Library", told.library),
        pieces=tuple(pieces),
        sharding=told.sharding,
        form=told.form,
    )
