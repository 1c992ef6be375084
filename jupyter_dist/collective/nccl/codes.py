"""What NCCL calls data types and reductions, and how it computes those that it does not have."""

from typing import Any, NamedTuple

import numpy as np

from jupyter_dist.collective.calls.dtypes import dtype_code
from jupyter_dist.errors import UsageError

INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = range(10)
FLOAT8_E4M3, FLOAT8_E5M2 = 10, 11

_TYPES = {
    "|i1": INT8,
    "|u1": UINT8,
    "<i4": INT32,
    "<u4": UINT32,
    "<i8": INT64,
    "<u8": UINT64,
    "<f2": FLOAT16,
    "<f4": FLOAT32,
    "<f8": FLOAT64,
    "bfloat16": BFLOAT16,
    "float8_e4m3fn": FLOAT8_E4M3,
    "float8_e5m2": FLOAT8_E5M2,
}
_COMPLEX = {"<c8": FLOAT32, "<c16": FLOAT64}
_NARROW = ("<i2", "<u2")
_BOOL = "|b1"

_OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
_LOGICAL = {"sum": _OPS["max"], "max": _OPS["max"], "prod": _OPS["min"], "min": _OPS["min"]}
"""As on the host: for bool, sum and max are a logical or, prod and min an and."""


class Reduction(NamedTuple):
    """How NCCL reduces arrays of one type by one operation."""

    datatype: int
    op: int
    factor: int = 1
    """Numbers of NCCL's type in each element."""
    widened: str = ""
    """Type to convert to before, and back from after; empty: none."""


def find_reduction(operation: str, dtype: np.dtype[Any], op: str) -> Reduction:
    """Return how NCCL reduces these; raises UsageError for what it cannot."""
    code = dtype_code(dtype)
    if code in _TYPES:
        return Reduction(_TYPES[code], _OPS[op])
    if code == _BOOL:
        return Reduction(UINT8, _LOGICAL[op])
    if code in _NARROW:
        # What wraps around in 32 bits, and then in 16, has wrapped around as it does in 16.
        return Reduction(INT32, _OPS[op], widened="int32")
    if code in _COMPLEX and op in ("sum", "avg"):
        return Reduction(_COMPLEX[code], _OPS[op], factor=2)
    if code in _COMPLEX:
        raise UsageError(
            f"{operation} got op={op!r} for {dtype} in device memory. Accepted: 'sum' and 'avg', "
            "for NCCL knows no complex numbers. Gather and reduce (comm.all_gather(x), then "
            "cupy.prod and the like), or pass the array in host memory (cupy.asnumpy(x))."
        )
    raise UsageError(
        f"{operation} got {dtype} in device memory. Accepted for reductions: bool, integers, "
        "float16 to float64, bfloat16, float8_e4m3fn, float8_e5m2 and complex numbers, all in "
        "the byte order of this machine. Convert it with x.astype(…)."
    )
