"""Which reductions gloo computes as numpy does, and how it must see the array for that."""

from typing import NamedTuple

import numpy as np

from jupyter_dist.collective.call import Array


class Native(NamedTuple):
    """What gloo is told: an operation by torch's name, on the same memory seen in another way."""

    array: Array
    operation: str


def native(array: Array, reduction: str) -> Native | None:
    """Say how gloo can reduce a flat array; None when only numpy does it right.

    Gloo has no 16-bit integers and no small floats, and loses a NaN in a minimum.
    """
    kind, itemsize = array.dtype.kind, array.itemsize
    if not array.dtype.isnative:
        return None
    if kind == "b":
        # True is 1: a logical and is a minimum.
        is_and = reduction in ("prod", "min")
        return Native(array.view(np.uint8), "MIN" if is_and else "MAX")
    if reduction in ("min", "max"):
        is_known = (kind == "i" and itemsize in (1, 4, 8)) or array.dtype == np.uint8
        return Native(array, reduction.upper()) if is_known else None
    operation = "PRODUCT" if reduction == "prod" else "SUM"
    if kind in "iu" and itemsize in (1, 4, 8):
        # Sums and products that wrap around have the same bits with a sign and without.
        return Native(array.view(f"i{itemsize}"), operation)
    if kind == "f" and itemsize in (4, 8):
        return Native(array, operation)
    if kind == "c" and itemsize in (8, 16) and operation == "SUM":
        return Native(array.view(f"f{itemsize // 2}"), operation)
    return None
