"""Numpy arrays as torch sees them: the same memory, which gloo reads and writes."""

from typing import Any

import numpy as np

from jupyter_dist.collective.call import Array


class _Memory:
    """The memory of an array that numpy calls read-only; torch knows no such thing."""

    def __init__(self, array: Array) -> None:
        self.array = array
        place = (array.ctypes.data, False)
        self.__array_interface__ = {**array.__array_interface__, "data": place}


def as_tensor(array: Array) -> Any:
    """View an array of a type that torch has; nothing must write into it unless it is writable."""
    import torch

    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Memory(array)))


def as_bytes(array: Array) -> Any:
    """View a C-contiguous array as bytes, whatever its dtype and shape."""
    return as_tensor(array.reshape(-1).view(np.uint8))


def as_rows(stack: Array) -> list[Any]:
    """View each row as bytes."""
    return [as_bytes(row) for row in stack]


def operation(name: str) -> Any:
    """Give torch's name for a reduction: `SUM`."""
    from torch.distributed import ReduceOp

    return getattr(ReduceOp, name)
