"""What all ranks have told of their trees, put together: which leaf is stored how, and by whom."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from jupyter_dist.checkpoint.format.manifest import (
    ArrayEntry,
    Box,
    Branch,
    Entry,
    Layout,
    Node,
    PlainEntry,
)
from jupyter_dist.checkpoint.format.number_types import array_bytes
from jupyter_dist.checkpoint.format.sharding import (
    block_box,
    box_shape,
    find_mistile,
    whole_box,
)
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.rank import name_ranks

CUT_BYTES = 32 << 20
"""A replicated array of so many bytes is written in parts by all ranks."""


class LeafReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank tells of one of its leaves."""

    path: str
    entry: Entry
    """As this rank has it; its layout and its pieces are known only when all have told."""
    nbytes: int = 0
    """Of what this rank has of it."""
    is_whole: bool = True
    """Of an array: all of it is on this rank."""
    boxes: tuple[Box, ...] = ()
    """Of one that is not whole, and not a Shard: the parts that this rank has to write."""
    glance: str = ""
    """Digest of some of its bytes: those whose glances differ are not the same."""


class TreeReport(msgspec.Struct, frozen=True):
    """What a rank tells of its tree."""

    structure: Node
    leaves: tuple[LeafReport, ...]


class MergedLeaf(NamedTuple):
    """A leaf as all ranks have it."""

    path: str
    by_rank: tuple[LeafReport | None, ...]
    numbers: tuple[int, ...]
    """Its place in the list of each rank; -1: it has none such."""
    layout: Layout
    """Replicated only if the digests of all ranks turn out to be the same, too."""
    shape: tuple[int, ...] = ()
    """Of a sharded array, the whole of it."""
    boxes: tuple[tuple[Box, ...], ...] = ()
    """Of a sharded array, what each rank has of the whole."""

    @property
    def first(self) -> LeafReport:
        """What the first rank that has it tells of it."""
        return next(told for told in self.by_rank if told is not None)


class Merged(NamedTuple):
    """The tree of all ranks."""

    structures: tuple[Node, ...]
    """One for all ranks, or one for each where they differ; numbers are places in `leaves`."""
    leaves: tuple[MergedLeaf, ...]


def merge(told: Sequence[TreeReport]) -> Merged:
    """Put the trees of all ranks together; raises UsageError for blocks that fit no whole."""
    places: dict[str, int] = {}
    for each in told:
        for leaf in each.leaves:
            places.setdefault(leaf.path, len(places))
    own = [{leaf.path: number for number, leaf in enumerate(each.leaves)} for each in told]
    leaves = []
    for path in places:
        numbers = tuple(mine.get(path, -1) for mine in own)
        by_rank = tuple(
            each.leaves[number] if number >= 0 else None
            for each, number in zip(told, numbers, strict=True)
        )
        leaves.append(_merge_leaf(path, by_rank, numbers))
    structures = tuple(
        _renumber(each.structure, [places[leaf.path] for leaf in each.leaves]) for each in told
    )
    if all(structure == structures[0] for structure in structures):
        structures = structures[:1]
    return Merged(structures, tuple(leaves))


def _merge_leaf(
    path: str, by_rank: tuple[LeafReport | None, ...], numbers: tuple[int, ...]
) -> MergedLeaf:
    parted = [rank for rank, told in enumerate(by_rank) if told is not None and not told.is_whole]
    if not parted:
        layout: Layout = "replicated" if _seem_same(by_rank) else "per_rank"
        return MergedLeaf(path, by_rank, numbers, layout)
    present = [told for told in by_rank if told is not None]
    arrays = [told.entry for told in present if isinstance(told.entry, ArrayEntry)]
    if len(parted) < len(by_rank):
        others = sorted(set(range(len(by_rank))) - set(parted))
        raise UsageError(
            f"{path} is part of an array over all ranks on {name_ranks(parted)}, but not on "
            f"{name_ranks(others)}. Give all ranks the same kind of value there."
        )
    terms = {(array.dtype, array.library, array.sharding) for array in arrays}
    if len(terms) > 1:
        raise UsageError(
            f"{path} has parts that do not belong together: "
            f"{_list_differences(arrays)}. Accepted: one dtype and one sharding on all ranks."
        )
    sharding = arrays[0].sharding
    if sharding is not None and sharding.axis >= 0 and not sharding.mesh_axes:
        shape, boxes = _join_blocks(path, arrays, sharding.axis)
    else:
        shape, boxes = arrays[0].shape, tuple(told.boxes for told in present)
        if mistile := find_mistile(shape, [box for own in boxes for box in own]):
            raise UsageError(
                f"{path} has parts that are not one array of shape {shape}: {mistile}. Accepted: "
                "one array over all ranks of the cluster."
            )
    return MergedLeaf(path, by_rank, numbers, "sharded", shape, boxes)


def _seem_same(by_rank: Sequence[LeafReport | None]) -> bool:
    first = by_rank[0]
    return first is not None and all(told is first or told == first for told in by_rank)


def _list_differences(arrays: Sequence[ArrayEntry]) -> str:
    texts = [f"{array.library} {array.dtype}{list(array.shape)}" for array in arrays]
    return ", ".join(f"{text} on rank {rank}" for rank, text in enumerate(texts))


def _join_blocks(
    path: str, blocks: Sequence[ArrayEntry], axis: int
) -> tuple[tuple[int, ...], tuple[tuple[Box, ...], ...]]:
    """Put the blocks of all ranks one behind the other."""
    outer = {(*block.shape[:axis], -1, *block.shape[axis + 1 :]) for block in blocks}
    if len(outer) > 1:
        raise UsageError(
            f"{path} has blocks that do not fit together along axis {axis}: "
            f"{_list_differences(blocks)}. Accepted: blocks that differ in that axis only."
        )
    boxes, start = [], 0
    for block in blocks:
        stop = start + block.shape[axis]
        boxes.append((block_box(block.shape, axis, start, stop),))
        start = stop
    shape = list(blocks[0].shape)
    shape[axis] = start
    return tuple(shape), tuple(boxes)


def _renumber(node: Node, places: Sequence[int]) -> Node:
    if node is None:
        return None
    if isinstance(node, int):
        return places[node]
    children = tuple(_renumber(child, places) for child in node.children)
    return Branch(node.kind, children, node.keys, node.type_name)


# --- who writes what -------------------------------------------------------------------------


class Part(NamedTuple):
    """A piece that a rank writes."""

    leaf: int
    """Place in the merged leaves."""
    block: int
    """Which of the blocks that it has of it."""
    box: Box
    """Its place in the whole array."""
    inside: Box | None
    """What of the block it is; None: all of it."""
    nbytes: int = 0


def share_out(leaves: Sequence[MergedLeaf], world_size: int) -> list[list[Part]]:
    """Say, by rank, who writes what; what all have is shared out by bytes."""
    parts: list[list[Part]] = [[] for _ in range(world_size)]
    load = [0] * world_size
    shared: list[int] = []
    for index, leaf in enumerate(leaves):
        if leaf.layout == "replicated":
            shared.append(index)
            continue
        for rank, told in enumerate(leaf.by_rank):
            if told is None:
                continue
            boxes = leaf.boxes[rank] if leaf.layout == "sharded" else _all_of(told.entry)
            for at, box in enumerate(boxes):
                parts[rank].append(Part(index, at, box, None, _part_bytes(told, box)))
            load[rank] += told.nbytes
    for index in sorted(shared, key=lambda each: -leaves[each].first.nbytes):
        told = leaves[index].first
        for box in _cut(told, world_size):
            rank = load.index(min(load))
            nbytes = _part_bytes(told, box)
            parts[rank].append(Part(index, 0, box, box, nbytes))
            load[rank] += nbytes
    return parts


def _all_of(entry: Entry) -> Sequence[Box]:
    """Return the box of all that is written of a leaf; none for what stands in the manifest."""
    if isinstance(entry, PlainEntry):
        return ()
    return (whole_box(entry.shape) if isinstance(entry, ArrayEntry) else (),)


def _cut(told: LeafReport, world_size: int) -> Sequence[Box]:
    """Cut a large array along its first axis into a part for each rank."""
    shape = told.entry.shape if isinstance(told.entry, ArrayEntry) else ()
    if told.nbytes < CUT_BYTES or not shape or shape[0] < world_size:
        return _all_of(told.entry)
    ends = [shape[0] * number // world_size for number in range(world_size + 1)]
    return [block_box(shape, 0, start, stop) for start, stop in pairwise(ends)]


def _part_bytes(told: LeafReport, box: Box) -> int:
    if isinstance(told.entry, ArrayEntry):
        return array_bytes(told.entry.dtype, box_shape(box))
    return told.nbytes
