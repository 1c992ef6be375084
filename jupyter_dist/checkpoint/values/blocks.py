"""Blocks of saved arrays in host memory, on their way to the arrays of a library.

Numbers travel as they were stored, in a type that numpy always has (`stored_dtype`); the types of
ml_dtypes are put on at the end, where the library needs them.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jupyter_dist.checkpoint.format.manifest import Box
from jupyter_dist.checkpoint.format.number_types import item_bytes
from jupyter_dist.errors import CheckpointFailed

Array = NDArray[Any]
_OF_ML_DTYPES = ("bfloat16", "float8_")


class Seat(NamedTuple):
    """A rank among those that restore."""

    rank: int
    world_size: int
    saved_world_size: int


class Placement(NamedTuple):
    """What this rank makes of one array."""

    boxes: tuple[Box, ...]
    """The parts that it needs."""
    build: Callable[[Sequence[Array]], Any]
    """Makes it of these parts, which are of the stored type; they belong to it from then on."""


def stored_dtype(name: str) -> "np.dtype[Any]":
    """Return the type that the bytes of an array are handled as."""
    return np.dtype(f"u{item_bytes(name)}" if is_extension(name) else name)


def is_extension(name: str) -> bool:
    """Return whether numpy has this type only where the package ml_dtypes is."""
    return name.startswith(_OF_ML_DTYPES)


def as_numpy(path: str, dtype: str, block: Array) -> Array:
    """Return a block its own type; raises CheckpointFailed where ml_dtypes lacks."""
    if not is_extension(dtype):
        return block
    try:
        import ml_dtypes
    except ImportError as error:
        raise CheckpointFailed(
            f"{path} holds {dtype}, for which numpy needs the package ml_dtypes on every host. "
            "Install it (pip install ml_dtypes)."
        ) from error
    return block.view(getattr(ml_dtypes, dtype))


def import_library(module: str, path: str, what: str) -> Any:
    """Import the library of an array. Raise CheckpointFailed without it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise cannot_make(path, what, error) from error


def cannot_make(path: str, what: str, error: object) -> CheckpointFailed:
    """Return why an array of a library cannot be made, and the way round it."""
    reason = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
    return CheckpointFailed(
        f"{path} was {what}, which cannot be made here: {reason.rstrip('.')}. To get it as another "
        "kind of array give `like` with one in its place (numpy.empty of its shape and dtype)."
    )
