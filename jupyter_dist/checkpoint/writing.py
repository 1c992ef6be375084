"""A rank writes its part of a checkpoint: one file with arrays, and one with objects."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from jupyter_dist.checkpoint.arrays import Array
from jupyter_dist.checkpoint.contents import Contents
from jupyter_dist.checkpoint.merging import Merged, MergedLeaf, Part
from jupyter_dist.checkpoint.part_file import PartWriter, PickleWriter
from jupyter_dist.model.checkpoint_manifest import Box, PartFile, Piece, Tensor


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
    arrays = [part for part in parts if merged.leaves[part.leaf].first.kind == "array"]
    objects = [part for part in parts if merged.leaves[part.leaf].first.kind == "object"]
    writing = _Writing(author, contents, merged.leaves, count)
    if arrays:
        writing.write_arrays(arrays)
    if objects:
        writing.write_objects(objects)
    return Written(tuple(writing.files), tuple(writing.pieces))


def array_file(rank: int) -> str:
    """Name the file with the arrays that a rank writes."""
    return f"arrays-{rank:05}.safetensors"


def object_file(rank: int) -> str:
    """Name the file with the objects that a rank writes."""
    return f"objects-{rank:05}.pickles"


class _Writing:
    def __init__(
        self,
        author: Author,
        contents: Contents,
        leaves: Sequence[MergedLeaf],
        count: Callable[[int], object],
    ) -> None:
        self._author = author
        self._contents = contents
        self._leaves = leaves
        self._count = count
        self.files: list[PartFile] = []
        self.pieces: list[tuple[int, Piece]] = []

    def write_arrays(self, parts: Sequence[Part]) -> None:
        tensors = [self._tensor(part) for part in parts]
        author = self._author
        path = author.directory / array_file(author.rank)
        with PartWriter(
            path, tensors, rank=author.rank, host=author.host, on_bytes=self._count
        ) as writer:
            for part, tensor in zip(parts, tensors, strict=True):
                data = self._array(part)
                self.pieces.append((part.leaf, writer.write(tensor.key, data, part.box)))
            self.files.append(writer.finish())

    def write_objects(self, parts: Sequence[Part]) -> None:
        author = self._author
        path = author.directory / object_file(author.rank)
        with PickleWriter(path, rank=author.rank, host=author.host, on_bytes=self._count) as writer:
            for part in parts:
                leaf = self._leaves[part.leaf]
                data = self._contents.pickle(leaf.numbers[author.rank])
                self.pieces.append((part.leaf, writer.write(leaf.path or "tree", data)))
            self.files.append(writer.finish())

    def _tensor(self, part: Part) -> Tensor:
        leaf = self._leaves[part.leaf]
        told = leaf.by_rank[self._author.rank]
        assert told is not None
        shape = tuple(stop - start for start, stop in part.box)
        has_several = leaf.layout == "sharded" and len(leaf.boxes[self._author.rank]) > 1
        suffix = f" block {part.block}" if has_several else ""
        return Tensor(f"{leaf.path or 'tree'}{suffix}", told.dtype, shape)

    def _array(self, part: Part) -> Array:
        data = self._contents.array(self._leaves[part.leaf].numbers[self._author.rank], part.block)
        if not part.inside:
            return data  # with an index an array without axes would become a bare number
        return data[_slices(part.inside)]


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)
