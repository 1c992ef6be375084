"""What a rank called: the operation with everything that all ranks must agree on."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from jupyter_dist.collective.calls.dtypes import dtype_name

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
    "group",
)

UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "avg": np.add,
}
"""Reductions by name. On bool, `sum` and `max` are a logical or, `prod` and `min` an and.

An average is a sum that is divided by the number of ranks in the end.
"""

REDUCTIONS = ("", *UFUNCS)

SHAPE_BYTES = 64
_PEER_WORDS = {"send": "dest", "recv": "source", "send_recv": "dest"}


class Signature(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What a call is about; equal on two ranks exactly when they mean the same."""

    operation: str
    dtype: str = ""
    """As dtypes.dtype_code writes it, byte order included; empty when there is no array."""
    shape: str = ""
    """As `3,4`; empty for a scalar."""
    reduction: str = ""
    root: int = -1
    """The root, the destination of a send or the source of a recv; -1 when there is none."""
    nbytes: int = 0
    """Size of the array."""
    group: str = ""
    """The communicator, if it was split off: its ranks, as `0,2` or `0,2~1`."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One call of many. Reads as the user wrote it."""

    signature: Signature
    sequence: int
    """Counts the collectives of a communicator; messages count per pair of ranks."""

    @property
    def operation(self) -> str:
        """Name of the operation."""
        return self.signature.operation

    def __str__(self) -> str:
        """Read as `all_reduce(float32[4], sum) #17`, of a group as `… #17 in group 0,2`."""
        meant = self.signature
        parts = [f"{dtype_name(meant.dtype)}[{meant.shape}]"] if meant.dtype else []
        if meant.reduction:
            parts.append(meant.reduction)
        if meant.root >= 0:
            parts.append(f"{_PEER_WORDS.get(meant.operation, 'root')}={meant.root}")
        where = f" in group {meant.group}" if meant.group else ""
        return f"{meant.operation}({', '.join(parts)}) #{self.sequence}{where}"


class Message(NamedTuple):
    """One array between two ranks: sent to the peer, or to be filled from it."""

    call: Call
    array: Any
    peer: int


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape as `3,4`, short enough for a header, and different for different shapes."""
    text = ",".join(map(str, shape))
    if len(text) <= SHAPE_BYTES:
        return text
    # Only arrays with dozens of axes come here; the hash of a tuple of ints is the same everywhere.
    return f"{','.join(map(str, shape[:4]))},…{len(shape)} axes {hash(shape) & (2**64 - 1):x}"


OnWaiting: TypeAlias = Callable[[Call, Sequence[int]], object]
"""What is called now and then while data of these ranks of the cluster has not come."""
