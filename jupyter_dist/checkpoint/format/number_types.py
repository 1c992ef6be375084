"""Types of numbers that a checkpoint knows: their size, and what safetensors calls them."""

from collections.abc import Iterable
from math import prod

NAMES = {
    "bool": ("BOOL", 1),
    "int8": ("I8", 1),
    "uint8": ("U8", 1),
    "int16": ("I16", 2),
    "uint16": ("U16", 2),
    "int32": ("I32", 4),
    "uint32": ("U32", 4),
    "int64": ("I64", 8),
    "uint64": ("U64", 8),
    "float16": ("F16", 2),
    "float32": ("F32", 4),
    "float64": ("F64", 8),
    "complex64": ("C64", 8),
    "complex128": ("", 16),
    "bfloat16": ("BF16", 2),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "float8_e8m0fnu": ("F8_E8M0", 1),
}
"""By numpy's name, or that of ml_dtypes: safetensors' name (empty: it has none), bytes of one."""


def item_bytes(dtype: str) -> int:
    """Return the size of one number; ValueError for a type that checkpoints do not know."""
    if dtype not in NAMES:
        raise ValueError(f"dtype {dtype!r} is unknown. Accepted: {', '.join(NAMES)}.")
    return NAMES[dtype][1]


def array_bytes(dtype: str, shape: Iterable[int]) -> int:
    """Return the size of an array; ValueError for a type that checkpoints do not know."""
    return item_bytes(dtype) * prod(shape)


def safetensors_view(dtype: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Say as what safetensors can hold an array: its type and shape there.

    Numbers of a type that it lacks are plain bytes along one more axis.
    """
    size = item_bytes(dtype)
    name = NAMES[dtype][0]
    return (name, shape) if name else ("U8", (*shape, size))
