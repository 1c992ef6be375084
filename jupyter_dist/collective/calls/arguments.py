"""Checks of what a collective is given, made before anything is sent."""

import math
from typing import Any, NoReturn

import numpy as np

from jupyter_dist.collective.calls.arrays import Library, host_array, host_view
from jupyter_dist.collective.calls.call import UFUNCS, Array
from jupyter_dist.collective.calls.dtypes import EXTENSION_NAMES, is_accepted
from jupyter_dist.collective.calls.output_buffer import OutputBuffer
from jupyter_dist.errors import UsageError

# Programs for MPI and torch give None where nothing is sent from.
_WHAT_TO_GIVE = {
    "broadcast": "an array on every rank: elsewhere than on the root, numpy.empty(shape, dtype) "
    "of what comes",
    "scatter": "on the root an array with one row for each rank, elsewhere numpy.empty(shape, "
    "dtype) of a row, as the array or as out=",
}


def numbers(operation: str, given: Any) -> tuple[Array, Library]:
    """Return what was given as a C-contiguous numeric array, and its library.

    Raises TypeError for other objects.
    """
    array, library = host_array(given)
    check_dtype(operation, given, array.dtype)
    return np.asarray(array, order="C"), library


def check_dtype(operation: str, given: Any, dtype: np.dtype[Any]) -> None:
    """Raise TypeError when arrays of this type cannot be exchanged."""
    if given is None:
        raise TypeError(
            f"{operation} got None. Accepted: {_WHAT_TO_GIVE.get(operation, 'an array')}. "
            f"Use {_object_way(operation)} for other objects."
        )
    if not is_accepted(dtype):
        raise TypeError(
            f"{operation} got {type(given).__name__} of dtype {dtype}. Accepted: bool, integers, "
            f"floats ({', '.join(EXTENSION_NAMES)} among them) and complex numbers. Convert it "
            f"with numpy.asarray(x, dtype=…), or use {_object_way(operation)} for other objects."
        )


def rows(operation: str, given: Any, size: int) -> tuple[Array, Library]:
    """Return an array with one row for each rank; raise UsageError when the first axis differs."""
    array, library = numbers(operation, given)
    check_rows(operation, array.shape, size)
    return array, library


def check_rows(operation: str, shape: tuple[int, ...], size: int) -> None:
    """Raise UsageError when the first axis is not one row for each rank."""
    if not shape or shape[0] != size:
        raise UsageError(
            f"{operation} got an array of shape {shape}. Accepted: one row for each rank, "
            f"that is shape ({size}, …). Reshape it, or pad it to a multiple of {size} rows."
        )


def gathered_shape(shape: tuple[int, ...], size: int, *, tiled: bool) -> tuple[int, ...]:
    """Return the shape of what all ranks have, one behind the other or (tiled) put together."""
    if tiled and shape:
        return (size * shape[0], *shape[1:])
    return (size, *shape)


def result_room(
    operation: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], library: Library
) -> OutputBuffer:
    """Return room in `out` when the result fits into it exactly, new room when it is None."""
    if out is None:
        return OutputBuffer(np.empty(shape, dtype), None, library)
    view = host_view(out)
    if view is None:
        raise TypeError(
            f"{operation} got out={type(out).__name__}. Accepted: a numpy array or torch tensor in "
            f"host memory of shape {shape} and dtype {dtype}; arrays of JAX can never be written "
            "to. Leave `out` away to get a new array."
        )
    check_out(operation, view, shape, dtype)
    if not view.flags.writeable:
        raise UsageError(f"{operation} got an out that is not writable. {_LEAVE_AWAY}")
    return OutputBuffer(view if view.shape == shape else view.reshape(shape), out, library)


_LEAVE_AWAY = (
    "Accepted: a writable array that is contiguous (in the order of C or Fortran), such as "
    "numpy.empty makes. Leave `out` away to get a new array."
)


def check_out(operation: str, out: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Raise UsageError unless `out`, of whatever library, is exactly what the result needs."""
    flat = (math.prod(shape),)
    if out.shape not in (shape, flat) or out.dtype != dtype:
        raise UsageError(
            f"{operation} got out of shape {out.shape} and dtype {out.dtype}. Accepted: shape "
            f"{shape}, or the same flat, {flat}, and dtype {dtype}. Leave `out` away to get a new "
            "array."
        )
    if not out.flags.c_contiguous and not out.flags.f_contiguous:
        raise UsageError(f"{operation} got an out that is not contiguous. {_LEAVE_AWAY}")


def refuse_stream(operation: str, stream: Any) -> NoReturn:
    """Raise UsageError: a call on host memory was given a stream."""
    raise UsageError(
        f"{operation} got stream={stream!r} for arrays in host memory, whose calls are done "
        "when they return. Accepted: None; a stream is for arrays on a device."
    )


def peer(operation: str, word: str, given: Any, size: int) -> int:
    """Return a rank; `word` is root, dest or source. Raise UsageError when there is no such one."""
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"{operation} got {word}={given!r}. Accepted: a rank, 0 to {size - 1}.")
    if not 0 <= given < size:
        raise UsageError(
            f"{operation} got {word}={given}. Accepted: 0 to {size - 1}. Negative ranks do not "
            f"count from the end; the last rank is comm.size - 1."
        )
    return int(given)


def check_reduction(operation: str, given: Any, dtype: np.dtype[Any]) -> None:
    """Raise UsageError when there is no such reduction for arrays of this type."""
    if not isinstance(given, str) or given not in UFUNCS:
        raise UsageError(
            f"{operation} got op={given!r}. Accepted: {', '.join(map(repr, UFUNCS))}. For another "
            "reduction use all_gather and reduce the result."
        )
    if given == "avg" and dtype.kind in "biu":
        raise UsageError(
            f"{operation} got op='avg' for {dtype}: the average would have to be rounded. "
            "Accepted: floats and complex numbers. Convert the array first (x.astype(float)), or "
            "take the sum."
        )


def _object_way(operation: str) -> str:
    has_own = operation in ("broadcast", "gather", "scatter")
    return f"comm.{operation if has_own else 'all_gather'}_object"
