import sys

import numpy as np
import pytest

from jupyter_dist.collective.calls import arguments
from jupyter_dist.collective.calls.arrays import NUMPY, host_array, host_view, is_on_device
from jupyter_dist.errors import UsageError
from tests.reasons import WITHOUT_TORCH

SMALL_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason=WITHOUT_TORCH)


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


class OnCuda:
    """As CuPy and numba tell it."""

    @property
    def __cuda_array_interface__(self):
        return {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}


class InDlpack:
    def __init__(self, device, array=None):
        self.device = device
        self.array = array

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class OnTorchDevice:
    """What a torch tensor on a device has of interest; stands in for torch.Tensor itself."""

    def __init__(self, kind):
        self.device = self
        self.type = kind


class InArrayInterface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


def same_memory(one, other):
    return one.__array_interface__["data"][0] == other.__array_interface__["data"][0]


def test_numpy_arrays_are_taken_as_they_are():
    array = np.ones(3)
    assert host_array(array) == (array, NUMPY)
    assert host_view(array) is array


@pytest.mark.parametrize("given", [OnCuda(), InDlpack(2), InDlpack(13)])
def test_an_array_on_a_device_is_refused_with_the_next_step(given):
    assert is_on_device(given)
    for take in (host_array, host_view):
        with pytest.raises(TypeError, match=r"CUDA device.*--comm nccl"):
            take(given)


def test_an_out_on_a_device_is_refused_as_well():
    with pytest.raises(TypeError, match=r"OnCuda .*CUDA device"):
        arguments.result_room("all_reduce", OnCuda(), (2,), np.dtype("f4"), NUMPY)


@pytest.mark.parametrize(
    ("kind", "is_cuda", "words"), [("cuda", True, "CUDA device"), ("mps", False, "mps device")]
)
def test_torch_tensors_on_devices_are_recognized(monkeypatch, kind, is_cuda, words):
    monkeypatch.setitem(sys.modules, "torch", type("T", (), {"Tensor": OnTorchDevice}))
    given = OnTorchDevice(kind)
    assert is_on_device(given) is is_cuda
    with pytest.raises(TypeError, match=words):
        host_array(given)


def test_other_devices_are_no_cuda_devices_but_refused_too():
    assert not is_on_device(InDlpack(7))
    with pytest.raises(TypeError, match=r"DLPack.*7"):
        host_array(InDlpack(7))


@pytest.mark.parametrize("given", [1, 2.5, [1, 2], np.float32(3), np.ones(2), "text", None])
def test_what_is_no_device_array_is_on_no_device(given):
    assert not is_on_device(given)


@pytest.mark.parametrize("kind", [1, 3])
def test_dlpack_in_host_memory_is_viewed(kind):
    array = np.arange(4.0)
    viewed, library = host_array(InDlpack(kind, array))
    assert same_memory(viewed, array)
    assert library is NUMPY


def test_the_array_interface_is_viewed():
    array = np.arange(4.0)
    assert same_memory(host_array(InArrayInterface(array))[0], array)


@pytest.mark.parametrize("dtype", ["bool", "uint16", "int64", "float16", "float32", "complex128"])
def test_torch_tensors_are_viewed_and_given_back(torch, dtype):
    tensor = torch.ones((2, 3), dtype=getattr(torch, dtype))
    array, library = host_array(tensor)
    assert array.dtype == dtype
    assert array.ctypes.data == tensor.data_ptr()
    result = library.wrap(array)
    assert result.dtype == tensor.dtype
    assert result.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("name", SMALL_FLOATS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_small_floats_of_torch_are_viewed_and_given_back(torch, name, shape):
    tensor = torch.ones(shape).to(getattr(torch, name))
    array, library = host_array(tensor)
    assert array.dtype.name == name
    assert array.shape == shape
    assert array.astype("f4").tolist() == np.ones(shape).tolist()
    assert array.ctypes.data == tensor.data_ptr() or not array.size
    result = library.wrap(array)
    assert (result.dtype, tuple(result.shape)) == (tensor.dtype, shape)
    assert torch.equal(result.float(), tensor.float())


def test_a_tensor_need_not_be_contiguous(torch):
    tensor = torch.arange(6).reshape(2, 3).T
    array, _library = arguments.numbers("all_reduce", tensor)
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert array.flags.c_contiguous
    small, _library = host_array(torch.arange(6.0).bfloat16()[::2])
    assert small.astype("f4").tolist() == [0, 2, 4]


def test_marks_on_tensors_are_resolved(torch):
    tensor = torch.tensor([1 + 2j]).conj()
    assert host_array(tensor)[0].tolist() == [1 - 2j]
    assert host_array(tensor.imag)[0].tolist() == [-2]


def test_a_tensor_with_grad_is_read_but_not_written(torch):
    tensor = torch.ones(2, requires_grad=True)
    array, library = host_array(tensor)
    assert array.tolist() == [1, 1]
    assert not library.wrap(array).requires_grad
    for watched in (tensor, torch.nn.Parameter(torch.ones(2)), tensor * 2):
        with pytest.raises(UsageError, match=r"x\.detach\(\)"):
            host_view(watched)
    view = host_view(tensor.detach())
    view[0] = 5
    assert tensor.tolist() == [5, 1]


@pytest.mark.parametrize("name", ["float32", *SMALL_FLOATS])
def test_a_tensor_is_a_fitting_out(torch, name):
    out = torch.zeros(4).to(getattr(torch, name))
    dtype = host_array(out)[0].dtype
    output = arguments.result_room("all_reduce", out, (4,), dtype, NUMPY)
    output.keep_safe()[:] = 2
    output.settle()
    assert output.answer() is out
    assert out.float().tolist() == [2, 2, 2, 2]


def test_tensors_that_numpy_cannot_hold_are_refused_with_the_next_step(torch):
    with pytest.raises(TypeError, match=r"x\.to_dense\(\)"):
        host_array(torch.eye(2).to_sparse())
    with pytest.raises(TypeError, match=r"torch\.float8_e4m3fnuz.*x\.float\(\)"):
        host_array(torch.ones(2).to(torch.float8_e4m3fnuz))
    with pytest.raises(TypeError, match="meta device"):
        host_array(torch.ones(2, device="meta"))


@pytest.mark.parametrize("name", ["bool", "int32", "float32", "complex64", *SMALL_FLOATS])
def test_jax_arrays_are_viewed_and_given_back(jax, name):
    given = jax.numpy.ones((2, 3), name)
    array, library = host_array(given)
    assert array.dtype.name == name
    assert array.ctypes.data == given.unsafe_buffer_pointer()
    result = library.wrap(np.array(array))
    assert isinstance(result, jax.Array)
    assert (result.dtype, result.shape) == (given.dtype, (2, 3))
    assert result.devices() == given.devices()
    assert not library.is_view


def test_jax_arrays_cannot_be_written(jax):
    given = jax.numpy.ones(2)
    assert host_view(given) is None
    with pytest.raises(TypeError, match="JAX"):
        arguments.result_room("all_reduce", given, (2,), np.dtype("f4"), NUMPY)


def test_an_array_that_jax_only_traces_has_no_values(jax):
    with pytest.raises(TypeError, match="traced"):
        jax.jit(lambda traced: host_array(traced)[0])(np.ones(2, "f4"))
