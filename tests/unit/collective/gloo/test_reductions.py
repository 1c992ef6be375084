import numpy as np
import pytest

from jupyter_dist.collective.call import UFUNCS
from jupyter_dist.collective.dtypes import EXTENSION_NAMES, find_dtype
from jupyter_dist.collective.gloo.reductions import native

AS_GLOO = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}
KNOWN_TO_GLOO = ("uint8", "int8", "int32", "int64", "float32", "float64")
NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", ">f8", ">i4"),
    *EXTENSION_NAMES,
)


@pytest.mark.parametrize("reduction", UFUNCS)
@pytest.mark.parametrize("name", NAMES)
def test_what_gloo_reduces_has_the_bits_that_numpy_gives(name, reduction):
    dtype = find_dtype(name)
    # In the kinds of integers these wrap around.
    one = np.array([200, 3, 0, 1, 127]).astype(dtype)
    other = np.array([100, 250, 1, 1, 2]).astype(dtype)
    mine, theirs = native(one, reduction), native(other, reduction)
    if mine is None:
        assert theirs is None
        return
    assert mine.array.dtype in KNOWN_TO_GLOO
    assert mine.array.base is one or mine.array is one
    AS_GLOO[mine.operation](mine.array, theirs.array, out=mine.array)
    expected = UFUNCS[reduction](np.array([200, 3, 0, 1, 127]).astype(dtype), other)
    assert one.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("name", "reduction"),
    [
        ("float32", "min"),  # a NaN
        ("float64", "max"),
        ("uint64", "max"),  # no sign
        ("uint32", "min"),
        ("complex64", "prod"),
        ("complex128", "max"),
        ("int16", "sum"),
        ("float16", "sum"),
        ("longdouble", "sum"),
        ("float8_e5m2", "sum"),
        ("bfloat16", "avg"),
        (">f8", "sum"),
    ],
)
def test_what_gloo_would_do_differently_is_left_to_numpy(name, reduction):
    assert native(np.ones(2).astype(find_dtype(name)), reduction) is None


@pytest.mark.parametrize("name", ["float32", "float64", "int64", "bool", "complex64"])
def test_the_common_sums_are_left_to_gloo(name):
    assert native(np.ones(2).astype(name), "sum") is not None
