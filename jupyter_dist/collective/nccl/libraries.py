"""Arrays on the device, of whatever library, seen as CuPy's; and results given back as theirs."""

import sys
from typing import Any

import numpy as np

from jupyter_dist.collective.calls.arrays import (
    check_no_grad,
    is_of,
    is_on_device,
    plain_tensor,
    unlike_numpy,
)
from jupyter_dist.collective.calls.dtypes import find_dtype
from jupyter_dist.collective.nccl.cuda import Cuda, is_small_float
from jupyter_dist.errors import UsageError

Room = tuple[Any, Any]
"""A new array as CuPy sees it, and as its own library does."""


class DeviceLibrary:
    """How arrays of one library get in and out."""

    name: str
    keeps = False
    """Memory must be kept until a call is done: the library does not order it by our stream."""
    is_filled_later = True
    """Results may be given out before they are there: who uses them waits on the stream."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda

    def stream(self) -> Any:
        """Return the library's own current stream; None for CuPy's, for which JAX's wait too."""
        return None

    def view(self, operation: str, given: Any) -> Any:
        """View an array, without a copy; raises TypeError and UsageError."""
        raise NotImplementedError

    def view_out(self, operation: str, given: Any) -> Any:
        """View an array that will be written to; raises TypeError and UsageError."""
        return self.view(operation, given)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Room:
        """Make a new array."""
        array = self._cuda.empty(shape, dtype)
        return array, array

    def give(self, output: Room) -> Any:
        """Return what the caller gets."""
        return output[1]


class CuPyArrays(DeviceLibrary):
    """CuPy's own, and those of libraries that CuPy knows by a protocol: results are CuPy's."""

    name = "CuPy"

    def view(self, operation: str, given: Any) -> Any:
        """View an array, without a copy."""
        if isinstance(given, self._cuda.ndarray):
            return given
        if hasattr(type(given), "__cuda_array_interface__"):
            return self._cuda.cupy.asarray(given)
        if hasattr(type(given), "__dlpack__"):
            return self._cuda.cupy.from_dlpack(given)
        raise TypeError(f"{operation} got {type(given).__name__}, which is no array")


class TorchTensors(DeviceLibrary):
    """Tensors on the device, by their pointers: CuPy then need not know their types."""

    name = "torch"

    def __init__(self, cuda: Cuda) -> None:
        super().__init__(cuda)
        self._torch: Any = sys.modules["torch"]

    def stream(self) -> Any:
        """Return torch's current stream."""
        return self._cuda.stream_of(int(self._torch.cuda.current_stream().cuda_stream))

    def view(self, operation: str, given: Any) -> Any:
        """View a tensor, without a copy."""
        tensor, name = plain_tensor(given)
        try:
            dtype = find_dtype(name)
        except TypeError as error:
            raise unlike_numpy(name) from error
        if tensor.device.index != self._cuda.device_id:
            raise other_device(operation, tensor.device.index, self._cuda.device_id)
        strides = tuple(step * dtype.itemsize for step in tensor.stride())
        layout = tuple(tensor.shape), dtype, strides
        return self._cuda.view(int(tensor.data_ptr()), tensor, layout)

    def view_out(self, operation: str, given: Any) -> Any:
        """View a tensor that will be written to."""
        check_no_grad(given)
        return self.view(operation, given)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Room:
        """Make a new tensor."""
        kind = getattr(self._torch, dtype.name)
        tensor = self._torch.empty(shape, dtype=kind, device=f"cuda:{self._cuda.device_id}")
        return self.view("empty", tensor), tensor


class JaxArrays(DeviceLibrary):
    """JAX's arrays. They come and go by DLPack, which lets streams wait for each other."""

    name = "JAX"
    keeps = True
    is_filled_later = False

    def __init__(self, cuda: Cuda) -> None:
        super().__init__(cuda)
        self._jax: Any = sys.modules["jax"]

    def view(self, operation: str, given: Any) -> Any:
        """View an array, without a copy unless DLPack does not know its type."""
        if len(given.devices()) != 1:
            raise UsageError(
                f"{operation} got a JAX array on {len(given.devices())} devices. Accepted: an "
                "array on the device of this rank. Pass one of its addressable_shards' data."
            )
        known = _integers_for(given.dtype)
        if known is None:
            return self._cuda.cupy.from_dlpack(given)
        lax = self._jax.lax
        same = (
            given.astype(known) if given.dtype == bool else lax.bitcast_convert_type(given, known)
        )
        return self._cuda.cupy.from_dlpack(same).view(given.dtype)

    def view_out(self, operation: str, given: Any) -> Any:
        """Raise TypeError: they cannot be written to."""
        del given
        raise TypeError(
            f"{operation} got a JAX array as out. Accepted: arrays of CuPy and torch; arrays of "
            "JAX can never be written to. Leave `out` away to get a new array."
        )

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Room:
        """Make a new array, which JAX gets to see when it is queued to be filled."""
        return self._cuda.empty(shape, dtype), None

    def give(self, output: Room) -> Any:
        """Return what the caller gets."""
        view = output[0]
        known = _integers_for(view.dtype)
        if known is None:
            return self._jax.dlpack.from_dlpack(view)
        array = self._jax.dlpack.from_dlpack(view.view(known))
        if view.dtype == bool:
            return array.astype(bool)
        return self._jax.lax.bitcast_convert_type(array, view.dtype)


def _integers_for(dtype: Any) -> Any:
    """Return integers of the same size for types that DLPack may not carry; None for all others."""
    if dtype.kind != "b" and not is_small_float(dtype):
        return None
    return np.dtype(f"u{dtype.itemsize}")


_OTHERS: dict[str, tuple[str, type[DeviceLibrary]]] = {
    "torch": ("Tensor", TorchTensors),
    "jax": ("Array", JaxArrays),
}
"""By module: the name of its arrays, and how they get in and out."""


class Libraries:
    """Finds the library of an array on the device."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.cupy = CuPyArrays(cuda)
        self._made: dict[str, DeviceLibrary] = {}

    def find(self, given: Any) -> DeviceLibrary | None:
        """Return the library of this array; None when it does not lie on a CUDA device."""
        if isinstance(given, self._cuda.ndarray):
            return self.cupy
        if not is_on_device(given):
            return None
        for module, (name, kind) in _OTHERS.items():
            if is_of(module, name, given):
                if module not in self._made:
                    self._made[module] = kind(self._cuda)
                return self._made[module]
        return self.cupy


def other_device(operation: str, found: int, own: int) -> UsageError:
    """Say that an array lies on another device than the communicator's."""
    return UsageError(
        f"{operation} got an array on device {found}, but this rank communicates from device "
        f"{own}, which was current at its first call. Copy the array there "
        f"(with cupy.cuda.Device({own}): x = cupy.array(x))."
    )
