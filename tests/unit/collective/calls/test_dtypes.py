import sys

import numpy as np
import pytest

from jupyter_dist.collective.calls.dtypes import (
    CODE_BYTES,
    EXTENSION_NAMES,
    dtype_code,
    dtype_name,
    find_dtype,
    is_accepted,
)

NAMES = ("bool", "int8", "uint64", "float16", "float32", "complex128", *EXTENSION_NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_type_is_read_back_from_its_code(name):
    dtype = find_dtype(name)
    assert is_accepted(dtype)
    assert dtype_name(dtype_code(dtype)) == name
    assert len(dtype_code(dtype)) <= CODE_BYTES


def test_different_types_have_different_codes():
    dtypes = [find_dtype(name) for name in NAMES] + [np.dtype(">f4")]
    assert len({dtype_code(dtype) for dtype in dtypes}) == len(dtypes)


@pytest.mark.parametrize("given", [np.dtype("V2"), np.dtype("U3"), np.dtype(object)])
def test_what_holds_no_numbers_is_not_accepted(given):
    assert not is_accepted(given)


def test_without_ml_dtypes_a_small_float_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match="ml_dtypes"):
        find_dtype("bfloat16")
