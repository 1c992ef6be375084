"""Arrays cut into boxes: how ranks share one, and which saved boxes make up a new one."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import msgspec

from jupyter_dist.model.checkpoint_manifest import Box, Piece


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
    """Give the box of all of an array."""
    return tuple((0, length) for length in shape)


def axis_box(shape: Sequence[int], axis: int, part: int, parts: int) -> Box:
    """Give the box of one of `parts` blocks along an axis."""
    box = list(whole_box(shape))
    box[axis] = even_split(shape[axis], parts)[part]
    return tuple(box)


def chunk_box(shape: Sequence[int], axis: int, part: int, parts: int) -> Box:
    """Give a block as torch.chunk cuts it, which is how DTensors lie: the last ones are shorter."""
    length = shape[axis]
    step = -(-length // parts)
    start, stop = min(length, part * step), min(length, (part + 1) * step)
    return tuple((start, stop) if at == axis else (0, size) for at, size in enumerate(shape))


def box_shape(box: Box) -> tuple[int, ...]:
    """Give the lengths of a box."""
    return tuple(stop - start for start, stop in box)


def intersect(one: Box, other: Box) -> Box | None:
    """Give what both boxes have, None if that is nothing; boxes of scalars have the scalar."""
    found = []
    for (start, stop), (from_, to) in zip(one, other, strict=True):
        low, high = max(start, from_), min(stop, to)
        if low >= high:
            return None
        found.append((low, high))
    return tuple(found)


def within(box: Box, frame: Box) -> Box:
    """Say where a box lies as seen from the first element of another."""
    return tuple(
        (start - origin, stop - origin)
        for (start, stop), (origin, _) in zip(box, frame, strict=True)
    )


def slices(box: Box) -> tuple[slice, ...]:
    """Give what indexes an array with a box."""
    return tuple(slice(start, stop) for start, stop in box)


def pieces_for(box: Box, pieces: Sequence[Piece]) -> Iterator[Part]:
    """Say which pieces have elements of a box, and where these go in it."""
    for piece in pieces:
        common = intersect(box, piece.box)
        if common is not None:
            yield Part(piece, within(common, piece.box), within(common, box))


def find_mistile(shape: Sequence[int], boxes: Sequence[Box]) -> str:
    """Say what hinders boxes from covering an array exactly once; empty if nothing does."""
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
    """Tell whether two boxes have an element in common; none of them is empty."""
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
