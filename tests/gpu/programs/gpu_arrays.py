"""Arrays on ranks, and what numpy says of them: CuPy's, or numpy's where there is no GPU."""

import importlib
import os

import ml_dtypes
import numpy as np

xp = importlib.import_module(os.environ.get("JUPYTER_DIST_TEST_ARRAYS", "cupy"))
ON_DEVICE = xp is not np
EXTENSIONS = [
    np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
]
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add}


def values(rank, shape, dtype):
    """Small whole numbers: exact in every type, and different on each rank."""
    found = np.random.default_rng(rank).integers(1, 3, size=shape)
    return np.asarray(found > 1) if dtype == np.bool_ else np.asarray(found).astype(dtype)


def known(array):
    """View types that only numpy knows by ml_dtypes as integers of their size."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype in EXTENSIONS else array


def on_device(array):
    """Copy it there, whatever its type."""
    copied = xp.array(known(array))
    return copied.view(array.dtype) if array.dtype in EXTENSIONS else copied


def on_host(array):
    """Copy it back."""
    copied = xp.asnumpy(known(array)) if ON_DEVICE else np.array(array)
    return copied.view(array.dtype)


def same(found, expected):
    """Compare with what numpy says."""
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    np.testing.assert_array_equal(on_host(found), expected)


def reduced(arrays, op):
    """As numpy reduces, keeping the type."""
    total = arrays[0]
    for array in arrays[1:]:
        total = UFUNCS[op](total, array).astype(total.dtype)
    return total


def ops_for(dtype):
    """Reductions whose results are exact."""
    return ["sum"] if dtype.kind == "c" else ["sum", "prod", "min", "max"]
