"""Arrays cut into boxes: how ranks share one, and which saved boxes make up a new one."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import msgspec

from jupyter_dist.checkpoint.format.manifest import Box, Piece


class Part(msgspec.Struct, frozen=True):
    """What of a piece belongs to a box, and where it goes there."""

    piece: Piece
    source: Box
    """Within the piece: its first element is at 0 on each axis."""
    target: Box
    """Within the box, likewise."""


def even_split(length: int, parts: int) -> list[tuple[int, int]]:
    """Cut a length as numpy.array_split does: the first parts are longer by one where needed."""
    short, longer = divmod(length, parts)
    starts = [part * short + min(part, longer) for part in range(parts + 1)]
    return list(pairwise(starts))


def whole_box(shape: Sequence[int]) -> Box:
    """Return the box of all of an array."""
    return tuple((0, length) for length in shape)


def block_box(shape: Sequence[int], axis: int, start: int, stop: int) -> Box:
    """Return the box from `start` to `stop` along an axis, with all of the others."""
    return tuple((start, stop) if at == axis else (0, length) for at, length in enumerate(shape))


def axis_box(shape: Sequence[int], axis: int, part: int, parts: int) -> Box:
    """Return the box of one of `parts` blocks along an axis."""
    return block_box(shape, axis, *even_split(shape[axis], parts)[part])


def chunk_box(shape: Sequence[int], axis: int, part: int, parts: int) -> Box:
    """Return a block as torch.chunk cuts it, and so DTensors: the last ones are shorter."""
    length = shape[axis]
    step = -(-length // parts)
    return block_box(shape, axis, min(length, part * step), min(length, (part + 1) * step))


def box_shape(box: Box) -> tuple[int, ...]:
    """Return the lengths of a box."""
    return tuple(stop - start for start, stop in box)


def intersect(one: Box, other: Box) -> Box | None:
    """Return what both boxes have, None if that is nothing; boxes of scalars have the scalar."""
    found = []
    for (start, stop), (from_, to) in zip(one, other, strict=True):
        low, high = max(start, from_), min(stop, to)
        if low >= high:
            return None
        found.append((low, high))
    return tuple(found)


def within(box: Box, frame: Box) -> Box:
    """Return where a box lies as seen from the first element of another."""
    return tuple(
        (start - origin, stop - origin)
        for (start, stop), (origin, _) in zip(box, frame, strict=True)
    )


def slices(box: Box) -> tuple[slice, ...]:
    """Return what indexes an array with a box."""
    return tuple(slice(start, stop) for start, stop in box)


def sliced_box(index: Sequence[slice], shape: Sequence[int]) -> Box:
    """Return the box that slices cut out of an array of this shape."""
    return tuple(
        (each.start or 0, length if each.stop is None else each.stop)
        for each, length in zip(index, shape, strict=True)
    )


def pieces_for(box: Box, pieces: Sequence[Piece]) -> Iterator[Part]:
    """Yield which pieces have elements of a box, and where these go in it."""
    for piece in pieces:
        common = intersect(box, piece.box)
        if common is not None:
            yield Part(piece, within(common, piece.box), within(common, box))


def find_mistile(shape: Sequence[int], boxes: Sequence[Box]) -> str:
    """Return what hinders boxes from covering an array exactly once; empty if nothing does."""
    for box in boxes:
        if len(box) != len(shape):
            return f"a piece has {len(box)} axes, the array {len(shape)}"
        for (start, stop), length in zip(box, shape, strict=True):
            if not 0 <= start <= stop <= length:
                return f"a piece is {start}:{stop} on an axis of length {length}"
    filled = [box for box in boxes if prod(box_shape(box))]
    volume = sum(prod(box_shape(box)) for box in filled)
    if _has_overlap(filled):
        return "pieces overlap"
    if volume != prod(shape):
        return f"pieces have {volume} of {prod(shape)} elements"
    return ""


def _has_overlap(boxes: Sequence[Box]) -> bool:
    """Return whether two boxes have an element in common; none of them is empty."""
    if boxes and not boxes[0]:
        return len(boxes) > 1
    active: list[Box] = []
    for box in sorted(boxes):
        # Sorted by where they start on the first axis: what has ended by then is out of the way.
        active = [other for other in active if other[0][1] > box[0][0]]
        if any(intersect(box, other) for other in active):
            return True
        active.append(box)
    return False
