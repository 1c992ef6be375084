"""What becomes of saved arrays, where the library lacks or would change them."""

import sys

import numpy as np
import pytest

from jupyter_dist.checkpoint.format.manifest import ArrayEntry, Sharding
from jupyter_dist.checkpoint.format.sharding import chunk_box
from jupyter_dist.checkpoint.restore.jax_placement import new_mesh_shape
from jupyter_dist.checkpoint.restore.placement import place
from jupyter_dist.checkpoint.values.arrays import Shard
from jupyter_dist.checkpoint.values.blocks import Seat, stored_dtype
from jupyter_dist.errors import CheckpointFailed

SEAT = Seat(rank=1, world_size=3, saved_world_size=4)
ALL = ((0, 6), (0, 2))


def entry(library="numpy", dtype="float32", layout="replicated", sharding=None):
    return ArrayEntry(
        dtype=dtype, shape=(6, 2), layout=layout, library=library, pieces=(), sharding=sharding
    )


def built(placement, dtype="float32"):
    """What is made of an array that counts up."""
    whole = np.arange(12).reshape(6, 2).astype(stored_dtype(dtype))
    blocks = [whole[tuple(slice(*part) for part in box)].copy() for box in placement.boxes]
    return placement.build(blocks)


def test_a_replicated_array_is_taken_whole():
    placement = place("['w']", entry(), SEAT)
    assert placement.boxes == (ALL,)
    assert built(placement).tolist() == np.arange(12).reshape(6, 2).tolist()


@pytest.mark.parametrize(("axis", "box"), [(0, ((2, 4), (0, 2))), (1, ((0, 6), (1, 2)))])
def test_a_shard_is_the_block_of_the_new_rank(axis, box):
    placement = place("['w']", entry(layout="sharded", sharding=Sharding(axis=axis)), SEAT)
    assert placement.boxes == (box,)
    shard = built(placement)
    assert isinstance(shard, Shard)
    assert shard.axis == axis


def test_small_floats_have_their_own_type_in_the_end():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = built(place("['w']", entry(dtype="bfloat16"), SEAT), "bfloat16")
    assert array.dtype == ml_dtypes.bfloat16
    assert array.view(np.uint16).ravel().tolist() == list(range(12))


def test_without_ml_dtypes_numpy_has_no_small_floats(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(CheckpointFailed, match=r"\['w'\] .*bfloat16.*install ml_dtypes"):
        built(place("['w']", entry(dtype="bfloat16"), SEAT), "bfloat16")


def test_without_ml_dtypes_torch_has_them_all_the_same(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is no requirement of the tests")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    tensor = built(place("['w']", entry("torch", "bfloat16"), SEAT), "bfloat16")
    assert tensor.dtype == torch.bfloat16
    assert tensor.view(torch.int16).ravel().tolist() == list(range(12))


@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_a_library_that_is_not_here_is_named_with_the_way_round(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(CheckpointFailed, match=r"\['w'\] .*`like`"):
        built(place("['w']", entry(library), SEAT))


@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_like_gives_it_as_an_array_that_is_known_here(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    placement = place("['w']", entry(library), SEAT, np.empty((6, 2), np.float32))
    assert built(placement).sum() == 66


@pytest.mark.parametrize("dtype", ["int64", "float64", "complex128"])
def test_jax_never_cuts_numbers_to_32_bits(dtype):
    jax = pytest.importorskip("jax")
    assert not jax.config.jax_enable_x64
    with pytest.raises(CheckpointFailed, match=rf"of JAX of {dtype}.*jax_enable_x64"):
        built(place("['w']", entry("jax", dtype), SEAT), dtype)


def test_a_layout_without_a_name_needs_like():
    with pytest.raises(CheckpointFailed, match=r"\['w'\] .*`like`"):
        place("['w']", entry("jax", layout="sharded"), SEAT)


@pytest.mark.parametrize(
    ("saved", "devices", "shape"),
    [
        ((4,), 3, (3,)),
        ((1,), 6, (6,)),
        ((2, 2), 4, (2, 2)),
        ((4, 1), 6, (6, 1)),
        ((1, 4), 2, (1, 2)),
        ((1, 1), 2, (2, 1)),
        ((2, 2), 6, None),
    ],
)
def test_a_mesh_grows_along_its_only_axis_or_says_that_it_cannot(saved, devices, shape):
    assert new_mesh_shape(saved, devices) == shape


@pytest.mark.parametrize("length", [0, 1, 5, 11, 12])
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_of_a_dtensor_are_those_of_torch_chunk(length, parts):
    torch = pytest.importorskip("torch", reason="torch is no requirement of the tests")
    chunks = [chunk.tolist() for chunk in torch.arange(length).chunk(parts)]
    chunks += [[]] * (parts - len(chunks))
    boxes = [chunk_box((2, length), 1, part, parts) for part in range(parts)]
    assert [list(range(*box[1])) for box in boxes] == chunks
    assert {box[0] for box in boxes} == {(0, 2)}
