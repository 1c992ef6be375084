"""A rank writes its part of a checkpoint: one file with arrays, and one with objects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from jupyter_dist.checkpoint.format.manifest import (
    ArrayEntry,
    ObjectEntry,
    PartFile,
    Piece,
    Tensor,
)
from jupyter_dist.checkpoint.format.part_file import PartWriter, PickleWriter
from jupyter_dist.checkpoint.format.sharding import box_shape, slices
from jupyter_dist.checkpoint.save.contents import Contents
from jupyter_dist.checkpoint.save.merging import Merged, MergedLeaf, Part
from jupyter_dist.checkpoint.values.blocks import Array


class Written(msgspec.Struct, frozen=True):
    """What a rank has written."""

    files: tuple[PartFile, ...]
    pieces: tuple[tuple[int, Piece], ...]
    """Each with the place of its leaf."""


class Author(msgspec.Struct, frozen=True):
    """Who writes, and where."""

    directory: Path
    rank: int
    host: str


def write_parts(
    author: Author,
    contents: Contents,
    merged: Merged,
    parts: Sequence[Part],
    count: Callable[[int], object],
) -> Written:
    """Write all parts of this rank, down to the disk; raises CheckpointFailed.

    `count` is told of bytes as they are written.
    """
    arrays = [
        part for part in parts if isinstance(merged.leaves[part.leaf].first.entry, ArrayEntry)
    ]
    objects = [
        part for part in parts if isinstance(merged.leaves[part.leaf].first.entry, ObjectEntry)
    ]
    writing = _Writing(author, contents, merged.leaves, count)
    if arrays:
        writing.write_arrays(arrays)
    if objects:
        writing.write_objects(objects)
    return Written(tuple(writing.files), tuple(writing.pieces))


@dataclass
class _Writing:
    author: Author
    contents: Contents
    leaves: Sequence[MergedLeaf]
    count: Callable[[int], object]
    files: list[PartFile] = field(default_factory=list)
    pieces: list[tuple[int, Piece]] = field(default_factory=list)

    def write_arrays(self, parts: Sequence[Part]) -> None:
        tensors = [self._tensor(part) for part in parts]
        author = self.author
        path = author.directory / f"arrays-{author.rank:05}.safetensors"
        with PartWriter(
            path, tensors, rank=author.rank, host=author.host, on_bytes=self.count
        ) as writer:
            for part, tensor in zip(parts, tensors, strict=True):
                data = self._array(part)
                self.pieces.append((part.leaf, writer.write(tensor.key, data, part.box)))
            self.files.append(writer.finish())

    def write_objects(self, parts: Sequence[Part]) -> None:
        author = self.author
        path = author.directory / f"objects-{author.rank:05}.pickles"
        with PickleWriter(path, rank=author.rank, host=author.host, on_bytes=self.count) as writer:
            for part in parts:
                leaf = self.leaves[part.leaf]
                data = self.contents.pickle(leaf.numbers[author.rank])
                self.pieces.append((part.leaf, writer.write(leaf.path or "tree", data)))
            self.files.append(writer.finish())

    def _tensor(self, part: Part) -> Tensor:
        leaf = self.leaves[part.leaf]
        told = leaf.by_rank[self.author.rank]
        assert told is not None
        assert isinstance(told.entry, ArrayEntry)
        has_several = leaf.layout == "sharded" and len(leaf.boxes[self.author.rank]) > 1
        suffix = f" block {part.block}" if has_several else ""
        return Tensor(f"{leaf.path or 'tree'}{suffix}", told.entry.dtype, box_shape(part.box))

    def _array(self, part: Part) -> Array:
        data = self.contents.array(self.leaves[part.leaf].numbers[self.author.rank], part.block)
        if not part.inside:
            return data  # with an index an array without axes would become a bare number
        return data[slices(part.inside)]
