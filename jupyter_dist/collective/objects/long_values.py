"""Long values, compared piece by piece: arrays of any library, text and bytes.

Two arrays are the same when their numbers are: -0.0 is 0.0, and every NaN is like the other.
"""

import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from jupyter_dist.collective.calls.call import Array, shape_text

DIGEST_BYTES = 16
_PIECE = 1 << 20
"""So many elements are looked at together: a copy of all of a large array may not fit."""
_EXCERPT = 12


class TextContent:
    """The characters of text, or the bytes of bytes."""

    def __init__(self, value: str | bytes) -> None:
        self._value = value
        self.count = len(value)
        self.what = f"{self.count} {'characters' if isinstance(value, str) else 'bytes'}"
        """As `201 characters`."""

    def digest(self, start: int, stop: int) -> bytes:
        """Return the digest of these characters; equal exactly when they are."""
        piece = self._value[start:stop]
        packed = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
        return blake2b(packed, digest_size=DIGEST_BYTES).digest()

    def place(self, index: int) -> str:
        """Return where a character is."""
        return f"[{index}]"

    def text(self, index: int) -> str:
        """Show a character with some of those after it."""
        after = "…" if index + _EXCERPT < self.count else ""
        return repr(self._value[index : index + _EXCERPT]) + after


class ArrayContent:
    """The elements of an array, in C order. What `salt` holds makes each NaN differ."""

    def __init__(self, array: Array, salt: bytes, what: str = "") -> None:
        self.what = what
        """As `float32[3,4]`."""
        self._shape = array.shape
        self._flat = array.reshape(-1)
        self._salt = salt
        self.count = array.size

    def digest(self, start: int, stop: int) -> bytes:
        """Return the digest of these elements; equal exactly when they are."""
        digest = blake2b(digest_size=DIGEST_BYTES)
        for at in range(start, stop, _PIECE):
            piece = self._flat[at : min(at + _PIECE, stop)]
            for packed in _settled(piece, self._salt):
                digest.update(packed)
        return digest.digest()

    def place(self, index: int) -> str:
        """Return where an element is: `[0, 2]`."""
        found = np.unravel_index(index, self._shape)
        return f"[{', '.join(str(int(axis)) for axis in found)}]"

    def text(self, index: int) -> str:
        """Write an element."""
        value = self._flat[index]
        return repr(value.item()) if self._flat.dtype.kind in "USV" else str(value)


Content = TextContent | ArrayContent
"""The elements of something long."""


def _settled(piece: Array, salt: bytes) -> Iterator[bytes]:
    """Yield bytes that are equal exactly when the elements are."""
    dtype = piece.dtype
    if dtype.names is not None:
        for name in dtype.names:
            yield from _settled(np.ascontiguousarray(piece[name]).reshape(-1), salt)
        return
    if dtype.kind == "V" and dtype.isbuiltin == 2:  # the small floats and integers of ml_dtypes
        piece = piece.astype(np.float64)
    if piece.dtype.kind in "fc":
        yield from _settled_floats(piece, salt)
        return
    yield piece.tobytes()
    if salt and piece.dtype.kind in "mM" and np.isnat(piece).any():
        yield salt


def _settled_floats(piece: Array, salt: bytes) -> Iterator[bytes]:
    real = np.ascontiguousarray(piece)
    if real.dtype.kind == "c":
        real = real.view(real.real.dtype)
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        real = real + 0.0  # a copy, in which -0.0 has become 0.0
    is_nan = np.isnan(real)
    if is_nan.any():
        real[is_nan] = np.nan
        yield salt
    packed = real.view(np.uint8).reshape(-1, real.dtype.itemsize)
    # An extended float fills 10 bytes; what is in the others means nothing.
    used = 10 if np.finfo(real.dtype).nmant == 63 else real.dtype.itemsize
    yield packed[:, :used].tobytes()


def holds_objects(dtype: np.dtype[Any]) -> bool:
    """Return whether the memory of such an array holds pointers, also within its fields."""
    return dtype.hasobject or dtype.kind == "T"


# --- arrays of other libraries ----------------------------------------------------------------


class HostCopy(NamedTuple):
    """An array as numpy sees it, and what it was."""

    array: Array
    library: str
    """As `torch.Tensor`."""
    dtype: str

    @property
    def text(self) -> str:
        """Read as `float32[3,4]`."""
        return f"{self.dtype}[{shape_text(self.array.shape)}]"


def host_copy(value: Any) -> HostCopy | None:
    """Return an array as numpy sees it; None for what is no array of a known library."""
    if isinstance(value, np.ndarray):
        library = f"{type(value).__module__}.{type(value).__qualname__}"
        dtype = value.dtype
        name = dtype.name if dtype.isnative and dtype.names is None else str(dtype)
        return HostCopy(value.view(np.ndarray), library, name)
    for name, take in (("torch", _from_torch), ("jax", _from_jax), ("cupy", _from_cupy)):
        module = sys.modules.get(name)  # who has such an array has loaded its library
        found = None if module is None else take(module, value)
        if found is not None:
            return found
    return None


def _from_torch(torch: Any, value: Any) -> HostCopy | None:
    if not isinstance(value, torch.Tensor):
        return None
    plain = value.detach().to_dense() if value.layout != torch.strided else value.detach()
    plain = plain.cpu().resolve_conj().resolve_neg()
    dtype = str(value.dtype).removeprefix("torch.")
    try:
        array = plain.numpy()
    except TypeError:  # bfloat16 and the float8 types, which fit into float32 exactly
        array = plain.to(torch.float32).numpy()
    return HostCopy(array, _name(value, "torch", "Tensor"), dtype)


def _from_jax(jax: Any, value: Any) -> HostCopy | None:
    kind: Any = getattr(jax, "Array", ())
    if not isinstance(value, kind):
        return None
    dtype = str(value.dtype)
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return HostCopy(np.asarray(value), "jax.Array", dtype)


def _from_cupy(cupy: Any, value: Any) -> HostCopy | None:
    kind: Any = getattr(cupy, "ndarray", ())
    if not isinstance(value, kind):
        return None
    return HostCopy(value.get(), _name(value, "cupy", "ndarray"), str(value.dtype))


def _name(value: Any, library: str, usual: str) -> str:
    kind = type(value).__qualname__
    return f"{library}.{usual}" if kind == usual else f"{type(value).__module__}.{kind}"


def join_digests(parts: Iterable[bytes]) -> bytes:
    """Return one digest for parts of any length, each told from the next."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()
