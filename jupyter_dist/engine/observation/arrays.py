"""Arrays of libraries, by what they tell of themselves without waiting for a device.

No library is imported: an object is an array of one if one of its classes comes from there.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from jupyter_dist.engine.observation.values import cut
from jupyter_dist.model.ranks.variable_facts import NameInfo

MOST_DIGESTED_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_SHOWN_ITEMS = 8
_LIBRARIES = ("numpy", "torch", "jax", "jaxlib", "cupy", "pandas", "polars", "scipy", "tensorflow")
_NUMBERS = "biufcSUMm"


def library_of(value: Any) -> str:
    """Name the library that an array comes from; empty: it is none."""
    for kind in type(value).__mro__:
        root = str(getattr(kind, "__module__", "")).partition(".")[0]
        has_type = hasattr(kind, "dtype") or hasattr(kind, "dtypes")
        if root in _LIBRARIES and has_type and hasattr(kind, "shape"):
            return "jax" if root == "jaxlib" else root
    return ""


def describe_array(
    name: str, value: Any, library: str, is_over: Callable[[], bool], with_value: bool
) -> NameInfo:
    """Tell of an array; `is_over` says when there is no time for more of it."""
    info = NameInfo(
        name=name,
        type_name=type(value).__name__,
        shape=_told(lambda: _shape(value.shape)),
        dtype=_told(lambda: str(value.dtype).removeprefix("torch.")) if library != "pandas" else "",
        nbytes=_bytes_of(value),
        device=_told(lambda: _device(value, library)),
    )
    if not with_value or info.device:
        return info
    here = in_host_memory(value, library)
    if here is None:
        return info
    return msgspec.structs.replace(info, preview=_preview(here), digest=_digest(here, is_over))


def _told(ask: Callable[[], str]) -> str:
    """Ask an array; one that was deleted, or lies elsewhere, may refuse."""
    try:
        return ask()
    except BaseException:  # noqa: BLE001  (libraries raise what they like)
        return ""


def _shape(shape: Any) -> str:
    sizes = [str(size) for size in shape]
    return "×".join(sizes) or "scalar"  # noqa: RUF001


def _bytes_of(value: Any) -> int:
    told = _told(lambda: str(int(value.nbytes)))
    return int(told) if told else -1


def _device(value: Any, library: str) -> str:
    """Name the device; empty for the host's memory."""
    if library == "torch":
        return "" if value.device.type == "cpu" else str(value.device)
    if library == "cupy":
        return f"cuda:{value.device.id}"
    if library == "jax":
        devices = sorted(value.devices(), key=lambda device: device.id)
        names = [f"{device.platform}:{device.id}" for device in devices]
        if all(device.platform == "cpu" for device in devices) and len(devices) == 1:
            return ""
        return ", ".join(names) if len(names) <= 4 else f"{len(names)} devices"
    return ""


def in_host_memory(value: Any, library: str) -> "np.ndarray[Any, Any] | None":
    """Return an array as numpy has it, where that copies nothing and waits for nobody."""
    try:
        if library == "numpy":
            return _of_numpy(value)
        if library == "torch" and type(value).__name__ in ("Tensor", "Parameter"):
            return _of_numpy(value.detach().numpy())
        if library == "jax" and value.is_fully_addressable and value.is_ready():
            return _of_numpy(np.asarray(value))
    except BaseException:  # noqa: BLE001  (libraries raise what they like)
        return None
    return None


def _of_numpy(value: Any) -> "np.ndarray[Any, Any] | None":
    if isinstance(value, np.generic):
        value = np.asarray(value)
    # Subclasses mask, map files or carry units: what their bytes mean only they know.
    is_plain = type(value) is np.ndarray and not value.dtype.hasobject and value.dtype.names is None
    return value if is_plain else None


def _preview(array: "np.ndarray[Any, Any]") -> str:
    if array.size > _SHOWN_ITEMS:
        return ""
    return cut(" ".join(_told(lambda: repr(array.tolist())).split()))


def _digest(array: "np.ndarray[Any, Any]", is_over: Callable[[], bool]) -> str:
    """Return the digest of type, shape and bytes; empty for large arrays and those with gaps."""
    if array.nbytes > MOST_DIGESTED_BYTES or not array.flags.c_contiguous:
        return ""
    digest = hashlib.blake2s(f"{array.dtype.str} {array.dtype.name} {array.shape};".encode())
    content = array.reshape(-1).view(np.uint8) if array.size else array.reshape(-1)
    for start in range(0, content.nbytes, _PIECE_BYTES):
        if is_over():
            return ""
        digest.update(content[start : start + _PIECE_BYTES].data)
    return digest.hexdigest()
