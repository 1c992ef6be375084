"""What some ranks have written is read by others, cut in another way."""

import numpy as np
from fakes.tilings import SHAPES, tilings
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dist.checkpoint.format.manifest import Tensor
from jupyter_dist.checkpoint.format.number_types import NAMES
from jupyter_dist.checkpoint.format.part_file import PartReader, PartWriter
from jupyter_dist.checkpoint.format.sharding import box_shape, pieces_for, slices

TYPES = [name for name in NAMES if name == "bool" or hasattr(np, name)]


def write(directory, rank, whole, boxes):
    """Write these boxes of an array as one rank; give their pieces, and the file by name."""
    path = directory / f"arrays-{rank:05d}.safetensors"
    path.unlink(missing_ok=True)
    keys = [f"['w'] {number}" for number in range(len(boxes))]
    tensors = [
        Tensor(key, whole.dtype.name, box_shape(box)) for key, box in zip(keys, boxes, strict=True)
    ]
    with PartWriter(path, tensors, rank=rank, host="nodeA") as writer:
        pieces = [
            writer.write(key, np.ascontiguousarray(whole[slices(box)]), box)
            for key, box in zip(keys, boxes, strict=True)
        ]
        return pieces, writer.finish()


@given(st.data())
@settings(max_examples=50)
def test_an_array_is_the_same_bit_for_bit_however_it_was_cut(tmp_path_factory, data):
    directory = tmp_path_factory.getbasetemp()
    shape = data.draw(SHAPES)
    dtype = np.dtype(data.draw(st.sampled_from(TYPES)))
    whole = np.zeros(shape, dtype)
    whole.reshape(-1).view("u1")[:] = np.arange(whole.nbytes) % (2 if dtype.kind == "b" else 256)
    boxes = data.draw(tilings(shape))
    world_size = data.draw(st.integers(1, 3))
    parts, pieces = {}, []
    for rank in range(world_size):
        own, part = write(directory, rank, whole, boxes[rank::world_size])
        pieces += own
        parts[part.name] = part
    for box in data.draw(tilings(shape)):
        made = np.zeros(box_shape(box), dtype)
        for found in pieces_for(box, pieces):
            name = found.piece.file
            with PartReader(directory / name, parts[name]) as reader:
                block = reader.read(found.piece).view(dtype).reshape(box_shape(found.piece.box))
            made[slices(found.target)] = block[slices(found.source)]
        assert made.tobytes() == np.ascontiguousarray(whole[slices(box)]).tobytes()
