"""What one rank puts into a checkpoint, held until it is written."""

from collections.abc import Sequence
from typing import Any

import xxhash

from jupyter_dist.checkpoint.format.manifest import ArrayEntry, ObjectEntry, plain_entry
from jupyter_dist.checkpoint.format.part_layout import bytes_of
from jupyter_dist.checkpoint.save.merging import LeafReport, TreeReport
from jupyter_dist.checkpoint.values.arrays import Block, Held
from jupyter_dist.checkpoint.values.blocks import Array
from jupyter_dist.checkpoint.values.copy_memory import CopyMemory
from jupyter_dist.checkpoint.values.tree import Leaf, Pickled, Plain, Taken, take_apart

GLANCE_BYTES = 64 << 10
"""Of an array's beginning, middle and end: so much tells most that differ apart."""


class Contents:
    """The leaves of this rank, with their bytes in host memory.

    Given a `memory` they are copied there, so that the user may go on and change what was saved.
    """

    def __init__(self, taken: Taken, memory: CopyMemory | None = None) -> None:
        self._leaves = taken.leaves
        self._memory = memory
        try:
            self._data = [_fetch_all(leaf, memory) for leaf in taken.leaves]
        except BaseException:
            self.release()
            raise
        self.told = TreeReport(
            taken.structure,
            tuple(_tell(leaf, data) for leaf, data in zip(taken.leaves, self._data, strict=True)),
        )
        self.nbytes = sum(leaf.nbytes for leaf in self.told.leaves)

    def array(self, number: int, block: int) -> Array:
        """Return a block of an array."""
        return self._data[number][block]

    def pickle(self, number: int) -> bytes:
        """Return the pickle of an object."""
        content = self._leaves[number].content
        assert isinstance(content, Pickled)
        return content.data

    def digest(self, number: int) -> str:
        """Return the digest of all bytes of a leaf that is whole on this rank."""
        content = self._leaves[number].content
        if isinstance(content, Pickled):
            return xxhash.xxh3_128_hexdigest(content.data)
        return xxhash.xxh3_128_hexdigest(bytes_of(self._data[number][0]))

    def release(self) -> None:
        """Let go of everything: it is written."""
        self._data, self._leaves = [], ()
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.settle()


def take(tree: Any, memory: CopyMemory | None = None) -> Contents:
    """Take a tree apart and hold what it consists of; see tree.take_apart."""
    return Contents(take_apart(tree), memory)


def _fetch_all(leaf: Leaf, memory: CopyMemory | None) -> Sequence[Array]:
    if not isinstance(leaf.content, Held):
        return ()
    return [_fetch(block, memory) for block in leaf.content.blocks]


def _fetch(block: Block, memory: CopyMemory | None) -> Array:
    data = block.fetch()
    return data if memory is None or not block.is_view else memory.copy(data)


def _tell(leaf: Leaf, data: Sequence[Array]) -> LeafReport:
    content = leaf.content
    if isinstance(content, Plain):
        return LeafReport(path=leaf.path, entry=plain_entry(content.value, "replicated"))
    if isinstance(content, Pickled):
        return LeafReport(
            path=leaf.path,
            entry=ObjectEntry(type_name=content.type_name, layout="replicated", pieces=()),
            nbytes=len(content.data),
            glance=_glance(memoryview(content.data)),
        )
    whole = content.is_whole
    entry = ArrayEntry(
        dtype=content.dtype,
        shape=content.shape,
        layout="replicated",
        library=content.library,
        pieces=(),
        sharding=content.sharding,
        form=content.form,
    )
    return LeafReport(
        path=leaf.path,
        entry=entry,
        nbytes=sum(array.nbytes for array in data),
        is_whole=whole,
        boxes=() if whole else tuple(block.box for block in content.blocks),
        glance=_glance(bytes_of(data[0])) if whole else "",
    )


def _glance(data: memoryview) -> str:
    """Return a digest of some of the bytes, which costs little however many there are."""
    digest = xxhash.xxh3_128()
    middle = len(data) // 2
    for start in (0, middle, max(0, len(data) - GLANCE_BYTES)):
        digest.update(data[start : start + GLANCE_BYTES])
    return digest.hexdigest()
