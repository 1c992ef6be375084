"""Calls with a count, as CuPy and NCCL have them: so many elements for each rank, of flat buffers.

What is longer than that is not touched. Elements are counted in the order of C.
"""

from typing import Any

import numpy as np

from jupyter_dist.errors import UsageError


def all_gather(comm: Any, array: Any, out: Any, count: int, stream: Any = None) -> Any:
    """Collect the first `count` elements of every rank: (size * count,), or the head of `out`."""
    count = check_count("all_gather", count)
    source = _head("all_gather", "array", array, count, comm.size)
    output = None if out is None else _head("all_gather", "out", out, count * comm.size, comm.size)
    found = comm.all_gather(source, out=output, tiled=True, stream=stream)
    return found if out is None else out


def reduce_scatter(comm: Any, array: Any, op: str, out: Any, count: int, stream: Any = None) -> Any:
    """Reduce the first size * count elements; rank i gets `count` of them, from i * count on."""
    count = check_count("reduce_scatter", count)
    source = _head("reduce_scatter", "array", array, count * comm.size, comm.size)
    output = None if out is None else _head("reduce_scatter", "out", out, count, comm.size)
    rows = source.reshape((comm.size, count))
    found = comm.reduce_scatter(rows, op, out=output, stream=stream)
    return found if out is None else out


def check_count(operation: str, count: Any) -> int:
    """Return a count; raises TypeError and UsageError for what is none."""
    if isinstance(count, (bool, np.bool_)) or not isinstance(count, (int, np.integer)):
        raise TypeError(
            f"{operation} got count={count!r}. Accepted: how many elements each rank sends or gets."
        )
    if count < 0:
        raise UsageError(f"{operation} got count={count}. Accepted: 0 and more.")
    return int(count)


def _head(operation: str, word: str, given: Any, length: int, size: int) -> Any:
    """View the first elements of an array of any library; raises UsageError if it has fewer."""
    array = given if hasattr(given, "reshape") else np.asarray(given)
    shape = tuple(array.shape)
    if len(shape) != 1:
        # A copy would be made on the current stream, and not on that of the call.
        if not _is_contiguous(array):
            raise UsageError(
                f"{operation} got count and {word} of shape {shape} that is not C-contiguous. "
                "Accepted: C-contiguous arrays, which are taken from their beginning."
            )
        array = array.reshape(-1)
    if array.shape[0] < length:
        raise UsageError(
            f"{operation} got count for {length} elements and {word} of shape {shape}. Accepted: "
            f"at least so many, on each of {size} ranks; or leave `count` away to take all."
        )
    return array[:length]


def _is_contiguous(array: Any) -> bool:
    """Return whether a flat view of this array shows the same memory."""
    if hasattr(array, "is_contiguous"):  # torch
        return bool(array.is_contiguous())
    flags = getattr(array, "flags", None)
    return flags is None or bool(flags.c_contiguous)
