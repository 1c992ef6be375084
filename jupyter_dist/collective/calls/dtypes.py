"""Data types that communicators take: numpy's own, and the small floats of machine learning."""

from typing import Any

import numpy as np

NUMERIC_KINDS = "biufc"
EXTENSION_NAMES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""They come with the package ml_dtypes, which jax brings along.

To numpy most of them are void; float8_e5m2 is a float whose code, `<f1`, it cannot read itself.
"""
CODE_BYTES = 16


def is_accepted(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of this type can be exchanged and reduced."""
    return dtype.kind in NUMERIC_KINDS or is_extension(dtype)


def is_extension(dtype: np.dtype[Any]) -> bool:
    """Return whether this is one of the small floats that numpy does not have itself."""
    return dtype.isbuiltin == 2 and dtype.name in EXTENSION_NAMES


def dtype_code(dtype: np.dtype[Any]) -> str:
    """Write a type so that different ones differ: `<f4`, or `bfloat16` for an extension."""
    return dtype.name if is_extension(dtype) else dtype.str


def dtype_name(code: str) -> str:
    """Read a code as people write the type: `float32`."""
    if code in EXTENSION_NAMES:
        return code
    try:
        return np.dtype(code).name
    except TypeError:
        return code


def find_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy type of a name, an extension type included; raises TypeError.

    The extension types need the package ml_dtypes.
    """
    if name not in EXTENSION_NAMES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise TypeError(
            f"arrays of {name} need the package ml_dtypes on every host. Install it "
            "(pip install ml_dtypes), or convert to float32."
        ) from error
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found
