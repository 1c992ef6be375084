"""Arrays of other libraries, taken as they are: in which memory they lie, and how to give back.

No library is imported for this: an array can only be theirs if its library is loaded already.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jupyter_dist.collective.calls.call import Array
from jupyter_dist.collective.calls.dtypes import EXTENSION_NAMES, find_dtype
from jupyter_dist.errors import UsageError

_PLAIN = (int, float, complex, list, tuple, np.generic)
_DLPACK_HOST = (1, 3, 11)
"""kDLCPU and the pinned memories kDLCUDAHost and kDLROCMHost, of dlpack.h."""
_DLPACK_CUDA = (2, 13)
"""kDLCUDA and kDLCUDAManaged."""
_DEVICE_WORDS = {"cpu": "", "cuda": "CUDA device", "gpu": "CUDA device"}


class Library(NamedTuple):
    """How a library's arrays come out of numpy ones."""

    name: str
    wrap: Callable[[Array], Any]
    is_view: bool = True
    """What `wrap` gives shows what is written into the numpy array later."""


def _as_tensor(result: Array) -> Any:
    import torch

    name = result.dtype.name
    if name not in EXTENSION_NAMES:
        return torch.from_numpy(result)
    integers = np.int16 if result.itemsize == 2 else np.uint8
    return torch.from_numpy(result.view(integers)).view(getattr(torch, name))


NUMPY = Library("numpy", lambda result: result)
SCALARS = Library("scalars", lambda result: result[()] if result.ndim == 0 else result, False)
TORCH = Library("torch", _as_tensor)


def host_array(given: Any) -> tuple[Array, Library]:
    """View what was given as a numpy array, and say how a result is given back.

    A scalar gives a scalar, a list a numpy array. Raises TypeError for arrays on a device.
    """
    if isinstance(given, np.ndarray):
        return given, NUMPY
    if not isinstance(given, _PLAIN):
        _check_in_host_memory(given)
        if is_of("torch", "Tensor", given):
            return _tensor_view(given), TORCH
        if is_of("jax", "Array", given):
            # JAX hands out its own memory, which must not be written to.
            return np.asarray(given), _jax_beside(given)
        if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
            return np.from_dlpack(given), NUMPY
    array = np.asarray(given)
    return array, NUMPY if array.ndim else SCALARS


def host_view(given: Any) -> Array | None:
    """View a writable array of numpy or torch without copying it; None for everything else.

    Raises TypeError for arrays on a device, UsageError for tensors that autograd watches.
    """
    if isinstance(given, np.ndarray):
        return given
    if isinstance(given, _PLAIN):
        return None
    _check_in_host_memory(given)
    if not is_of("torch", "Tensor", given):
        return None
    check_no_grad(given)
    return _tensor_view(given)


def is_on_device(given: Any) -> bool:
    """Return whether this is an array in the memory of a CUDA device."""
    if isinstance(given, (np.ndarray, *_PLAIN)):
        return False
    return _device_of(given) == "CUDA device"


def _check_in_host_memory(given: Any) -> None:
    device = _device_of(given)
    if device:
        kind = f"{type(given).__module__.partition('.')[0]}.{type(given).__name__}"
        raise TypeError(
            f"this {kind} lies on a {device}; this communicator moves host memory. Start the "
            "cluster with --comm nccl, or copy it (x.cpu(), cupy.asnumpy(x), numpy.asarray(x))."
        )


def _device_of(given: Any) -> str:
    """Return on what kind of device an array lies; empty for host memory and what is no array."""
    if is_of("torch", "Tensor", given):
        return _say_device(given.device.type)
    if is_of("jax", "Array", given):
        if isinstance(given, sys.modules["jax"].core.Tracer):
            raise TypeError(
                "a JAX array that is being traced (by jit, grad or vmap) has no values yet. "
                "Call the collective outside of the traced function."
            )
        return _say_device(next(iter(given.devices())).platform)
    if hasattr(type(given), "__cuda_array_interface__"):
        return "CUDA device"
    if not hasattr(type(given), "__dlpack_device__"):
        return ""
    kind = given.__dlpack_device__()[0]
    if kind in _DLPACK_HOST:
        return ""
    return "CUDA device" if kind in _DLPACK_CUDA else f"device of DLPack's kind {int(kind)}"


def _say_device(kind: str) -> str:
    return _DEVICE_WORDS.get(kind, f"{kind} device")


def check_no_grad(tensor: Any) -> None:
    """Raise UsageError for a tensor of torch that must not be written to."""
    if tensor.requires_grad:
        raise UsageError(
            "a torch tensor that requires grad cannot be written to: autograd would not know. "
            "Pass x.detach(), which shares its memory."
        )


def is_of(module: str, name: str, given: Any) -> bool:
    """Return whether this is of a type of a library, which is not imported for it."""
    # Half-imported by another thread, a library lacks the name; nobody can have its arrays yet.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(given, kind)


def plain_tensor(given: Any) -> tuple[Any, str]:
    """Return a tensor as it lies in memory, and its type by name; raise TypeError for others."""
    import torch

    if given.layout != torch.strided:
        raise TypeError(
            f"a torch tensor of layout {given.layout} is no plain array. Pass x.to_dense(), or "
            "a matrix of scipy.sparse or cupyx.scipy.sparse."
        )
    # Complex conjugates and negatives are marks on other tensors; only these two make copies.
    tensor = given.detach().resolve_conj().resolve_neg()
    return tensor, str(tensor.dtype).removeprefix("torch.")


def unlike_numpy(name: str) -> TypeError:
    """Say that numpy has no type like this one of torch."""
    return TypeError(
        f"numpy has nothing like torch.{name}. Accepted: bool, integers, floats "
        f"({', '.join(EXTENSION_NAMES)} among them) and complex numbers. Convert the tensor "
        "first, with x.float() for example."
    )


def _tensor_view(given: Any) -> Array:
    """View a tensor in host memory as numpy array; raise TypeError when it is not laid out so."""
    import torch

    tensor, name = plain_tensor(given)
    is_small = name in EXTENSION_NAMES
    if is_small:
        tensor = tensor.view(torch.int16 if tensor.element_size() == 2 else torch.uint8)
    try:
        array: Array = tensor.numpy()
    except TypeError as error:
        raise unlike_numpy(name) from error
    return array.view(find_dtype(name)) if is_small else array


def _jax_beside(given: Any) -> Library:
    """Return results on the device where `given` lies, which need not be the default one."""
    device = next(iter(given.devices()))

    def wrap(result: Array) -> Any:
        import jax

        with jax.default_device(device):
            array = jax.numpy.asarray(result)
        # Without x64 JAX has no 64-bit numbers; then none can have been given either.
        assert array.dtype == result.dtype, f"{result.dtype} became {array.dtype}"
        return array

    return Library("JAX", wrap, is_view=False)
