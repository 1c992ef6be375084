"""Arrays of all libraries as blocks of host memory."""

import sys
import types

import numpy as np
import pytest

from jupyter_dist.checkpoint.values.arrays import Shard, look_at
from jupyter_dist.errors import UsageError


def fetched(value):
    """What is held of an array that is whole here, and how its numbers lie in host memory."""
    held = look_at(value)
    (block,) = held.blocks
    data = block.fetch()
    assert data.flags.c_contiguous
    assert block.box == tuple((0, length) for length in held.shape)
    return held, data


def test_what_is_no_array_is_none():
    assert [look_at(value) for value in (1, 1.5, "x", [1], None, object())] == [None] * 6


def test_cupy_arrays_are_copied_from_their_device(monkeypatch):
    class OnDevice:
        def __init__(self, numbers):
            self.numbers = numbers
            self.dtype, self.shape = numbers.dtype, numbers.shape

    cupy = types.ModuleType("cupy")
    cupy.ndarray = OnDevice
    cupy.asnumpy = lambda value, order: np.array(value.numbers, order=order)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    held, data = fetched(OnDevice(np.arange(6, dtype="f4").reshape(2, 3).T))
    assert (held.library, held.dtype, held.shape) == ("cupy", "float32", (3, 2))
    assert data.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert not held.blocks[0].is_view
    assert look_at(OnDevice(np.array(["text"]))) is None


# --- torch -----------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_tensors_in_host_memory_are_not_copied(torch):
    tensor = torch.arange(4.0)
    held, data = fetched(tensor)
    assert (held.library, held.dtype, held.shape) == ("torch", "float32", (4,))
    tensor[0] = 9
    assert data[0] == 9
    assert held.blocks[0].is_view


def test_tensors_are_taken_however_they_lie(torch):
    matrix = torch.arange(6.0).reshape(2, 3)
    values = [
        (matrix.T, matrix.numpy().T),
        (torch.tensor([1 + 2j]).conj(), np.array([1 - 2j], "c8")),
        (torch.ones(2, requires_grad=True), np.ones(2, "f4")),
        (torch.nn.Parameter(torch.zeros(2)), np.zeros(2, "f4")),
        (torch.tensor(True), np.array(True)),
        (torch.zeros((0, 2)), np.zeros((0, 2), "f4")),
    ]
    for tensor, expected in values:
        _, data = fetched(tensor)
        assert np.array_equal(data, expected)
        assert data.dtype == expected.dtype


def test_small_floats_of_torch_are_their_bits(torch):
    held, data = fetched(torch.tensor([1.0, -2.0], dtype=torch.bfloat16))
    assert held.dtype == "bfloat16"
    assert data.view("u2").tolist() == [0x3F80, 0xC000]
    held, data = fetched(torch.tensor([1.0]).to(torch.float8_e4m3fn))
    assert (held.dtype, data.itemsize) == ("float8_e4m3fn", 1)


def test_small_floats_of_torch_are_their_bits_beside_those_of_numpy(torch):
    pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        tensor = torch.tensor([1.0, 2.0]).to(getattr(torch, name))
        held, data = fetched(tensor)
        assert held.dtype == name
        assert data.tobytes() == bytes(tensor.view(torch.uint8).tolist())


def test_other_layouts_of_torch_are_no_arrays(torch):
    assert look_at(torch.eye(2).to_sparse()) is None


# --- JAX -------------------------------------------------------------------------------------


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


def test_jax_arrays_keep_their_sharding(jax):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    spec = jax.sharding.PartitionSpec("x", None)
    array = jax.device_put(np.ones((2, 3), "f4"), jax.sharding.NamedSharding(mesh, spec))
    held, data = fetched(array)
    assert (held.library, held.dtype, held.is_whole) == ("jax", "float32", True)
    sharding = held.sharding
    assert (sharding.mesh_shape, sharding.mesh_axes, sharding.spec) == ((1,), ("x",), (("x",), ()))
    assert data.tolist() == [[1, 1, 1]] * 2
    held, _ = fetched(jax.numpy.ones(2, "bfloat16"))
    assert (held.dtype, held.sharding) == ("bfloat16", None)


def test_jax_arrays_without_memory_or_values_are_refused(jax):
    array = jax.numpy.ones(2)
    array.delete()
    with pytest.raises(UsageError, match="deleted, or donated"):
        look_at(array)
    with pytest.raises(UsageError, match="being traced"):
        jax.jit(look_at)(np.ones(2))


def test_keys_of_jax_are_no_arrays_of_numbers(jax):
    assert look_at(jax.random.key(0)) is None


def test_shards_take_arrays_of_every_library(jax, torch):
    for array in (np.ones((2, 3)), torch.ones((2, 3)), jax.numpy.ones((2, 3))):
        held = look_at(Shard(array, -1))
        assert (held.is_whole, held.sharding.axis, held.shape) == (False, 1, (2, 3))
