"""Checks of what a collective is given, made before anything is sent."""

from typing import Any

import numpy as np

from jupyter_dist.collective.call import UFUNCS, Array
from jupyter_dist.errors import UsageError

_NUMERIC_KINDS = "biufc"


def numbers(operation: str, given: Any) -> Array:
    """Return what was given as a C-contiguous numeric array; raise TypeError for other objects."""
    array = np.asarray(given, order="C")
    if array.dtype.kind not in _NUMERIC_KINDS:
        raise TypeError(
            f"{operation} got {type(given).__name__} of dtype {array.dtype}. Accepted: bool, "
            "integers, floats and complex numbers. Convert it with numpy.asarray(x, dtype=…), or "
            "use the object collectives for other Python objects."
        )
    return array


def rows(operation: str, given: Any, size: int) -> Array:
    """Return an array with one row for each rank; raise UsageError when the first axis differs."""
    array = numbers(operation, given)
    if array.ndim == 0 or array.shape[0] != size:
        raise UsageError(
            f"{operation} got an array of shape {array.shape}. Accepted: one row for each rank, "
            f"that is shape ({size}, …). Reshape it, or pad it to a multiple of {size} rows."
        )
    return array


def result_room(operation: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return `out` when the result fits into it exactly, a new array when it is None."""
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise TypeError(
            f"{operation} got out={type(out).__name__}. Accepted: a numpy array of shape {shape} "
            f"and dtype {dtype}. Leave `out` away to get a new array."
        )
    if out.shape != shape or out.dtype != dtype:
        raise UsageError(
            f"{operation} got out of shape {out.shape} and dtype {out.dtype}. Accepted: shape "
            f"{shape} and dtype {dtype}. Leave `out` away to get a new array."
        )
    if not out.flags.c_contiguous or not out.flags.writeable:
        problem = "not writable" if out.flags.c_contiguous else "not C-contiguous"
        raise UsageError(
            f"{operation} got an out that is {problem}. Accepted: a writable C-contiguous array, "
            "such as numpy.empty makes. Leave `out` away to get a new array."
        )
    return out


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


def reduction(operation: str, given: Any) -> np.ufunc:
    """Return the numpy function of a reduction; raise UsageError when the name is unknown."""
    if not isinstance(given, str) or given not in UFUNCS:
        raise UsageError(
            f"{operation} got op={given!r}. Accepted: {', '.join(map(repr, UFUNCS))}. For another "
            "reduction use all_gather and reduce the result."
        )
    return UFUNCS[given]


def is_same_memory(array: Array, out: Array | None) -> bool:
    """Say whether `out` is the input itself, so that the operation works in place."""
    if out is None or array.shape != out.shape:
        return False
    return array.ctypes.data == out.ctypes.data
