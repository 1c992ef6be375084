"""What a rank called: the operation with everything that all ranks must agree on."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

OPERATIONS = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "barrier",
    "send",
    "recv",
    "send_recv",
)

UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
"""Reductions by name. On bool, `sum` and `max` are a logical or, `prod` and `min` an and."""

REDUCTIONS = ("", *UFUNCS)

_SHAPE_BYTES = 64
_PEER_WORDS = {"send": "dest", "recv": "source", "send_recv": "dest"}


class Call(msgspec.Struct, frozen=True):
    """One call; equal on two ranks exactly when they mean the same. Reads as the user wrote it."""

    operation: str
    sequence: int
    """Counts the collectives of a generation; point-to-point messages count per pair of ranks."""
    dtype: str = ""
    """As numpy's `dtype.str`, byte order included; empty when there is no array."""
    shape: str = ""
    """As `3,4`; empty for a scalar."""
    reduction: str = ""
    root: int = -1
    """The root, the destination of a send or the source of a recv; -1 when there is none."""

    def __str__(self) -> str:
        """Read as `all_reduce(float32[4], sum) #17`."""
        parts = [f"{_dtype_name(self.dtype)}[{self.shape}]"] if self.dtype else []
        if self.reduction:
            parts.append(self.reduction)
        if self.root >= 0:
            parts.append(f"{_PEER_WORDS.get(self.operation, 'root')}={self.root}")
        return f"{self.operation}({', '.join(parts)}) #{self.sequence}"


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape as `3,4`, short enough for a header, and different for different shapes."""
    text = ",".join(map(str, shape))
    if len(text) <= _SHAPE_BYTES:
        return text
    # Only arrays with dozens of axes come here; the hash of a tuple of ints is the same everywhere.
    return f"{','.join(map(str, shape[:4]))},…{len(shape)} axes {hash(shape) & (2**64 - 1):x}"


def _dtype_name(text: str) -> str:
    try:
        return np.dtype(text).name
    except TypeError:
        return text
