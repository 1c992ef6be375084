"""Sparse matrices as bytes: what ranks must be told ahead of them, and what then travels."""

import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from jupyter_dist.collective.calls.arguments import check_dtype
from jupyter_dist.collective.calls.dtypes import CODE_BYTES, dtype_code
from jupyter_dist.errors import UsageError

FORMATS = ("coo", "csr", "csc")
_INDICES = {"coo": ("row", "col"), "csr": ("indices", "indptr"), "csc": ("indices", "indptr")}
_ALIGNMENT = 16
"""Devices read a number only from where a multiple of its size is."""
_NEVER_SPARSE = frozenset((np.ndarray, int, float, complex, bool))


class Header(NamedTuple):
    """What must be known of a matrix to make room for it, and to read it."""

    format: str
    dtype: np.dtype[Any]
    index_bytes: int
    nnz: int
    shape: tuple[int, int]

    def words(self) -> list[int]:
        """Write it as WORDS integers."""
        code = dtype_code(self.dtype).encode().ljust(CODE_BYTES)
        halves = np.frombuffer(code, "<i8").tolist()
        return [FORMATS.index(self.format), *halves, self.index_bytes, self.nnz, *self.shape]

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix on the way."""
        return self.places()[-1]

    def counts(self) -> tuple[int, int, int]:
        """Count the numbers of its three arrays: the data, and the two of indices."""
        if self.format == "coo":
            return self.nnz, self.nnz, self.nnz
        return self.nnz, self.nnz, self.shape[self.format == "csc"] + 1

    def places(self) -> list[int]:
        """Return where in the bytes each of the three arrays begins, and where all ends."""
        sizes = (self.dtype.itemsize, self.index_bytes, self.index_bytes)
        spans = (count * size for count, size in zip(self.counts(), sizes, strict=True))
        return list(accumulate((-(-span // _ALIGNMENT) * _ALIGNMENT for span in spans), initial=0))

    def __str__(self) -> str:
        """Read as `float64 (3, 4)`."""
        return f"{self.dtype} {self.shape}"


WORDS = 7


def header_of(words: Sequence[int]) -> Header:
    """Read what `Header.words` has written."""
    form, low, high, index_bytes, nnz, rows, columns = words
    code = np.array([low, high], "<i8").tobytes().rstrip().decode()
    return Header(FORMATS[form], np.dtype(code), index_bytes, nnz, (rows, columns))


def is_sparse(given: Any) -> bool:
    """Return whether this is a sparse matrix, or a list that begins with one."""
    kind = type(given)
    if kind in _NEVER_SPARSE:
        return False
    if kind in (list, tuple):
        return bool(given) and is_matrix(given[0])
    return is_matrix(given)


def is_matrix(given: Any) -> bool:
    """Return whether this is a sparse matrix or array, of scipy or of CuPy."""
    kind = type(given)
    return hasattr(kind, "tocoo") and hasattr(kind, "nnz") and hasattr(kind, "format")


def describe(operation: str, given: Any) -> Header:
    """Return the header of a matrix; raises TypeError and UsageError for what cannot travel."""
    if not is_matrix(given):
        raise TypeError(
            f"{operation} got {type(given).__name__} where a sparse matrix must stand. Accepted: "
            "one of scipy or CuPy; call it with arrays only, or with sparse matrices only."
        )
    if given.format not in FORMATS or len(given.shape) != 2:
        raise UsageError(
            f"{operation} got a sparse matrix of format {given.format} and shape {given.shape}. "
            f"Accepted: {', '.join(FORMATS)}, with two axes. Convert it with x.tocsr()."
        )
    check_dtype(operation, given, np.dtype(given.dtype))
    indices = [getattr(given, name) for name in _INDICES[given.format]]
    index_bytes = max(each.dtype.itemsize for each in indices)
    rows, columns = given.shape
    shape = (int(rows), int(columns))
    return Header(given.format, np.dtype(given.dtype), index_bytes, int(given.nnz), shape)


def array_module(matrix: Any) -> Any:
    """Return numpy or cupy, whichever the matrix is made of."""
    return sys.modules[type(matrix.data).__module__.partition(".")[0]]


def pack(matrix: Any, header: Header) -> Any:
    """Write a matrix as an array of bytes where its own arrays lie."""
    arrays = array_module(matrix)
    packed = arrays.zeros(header.nbytes, np.uint8)
    index = f"i{header.index_bytes}"
    parts = [matrix.data, *(getattr(matrix, name) for name in _INDICES[header.format])]
    for part, dtype, count, place in zip(
        parts, (header.dtype, index, index), header.counts(), header.places()[:-1], strict=True
    ):
        # A compressed matrix may have more room than numbers.
        numbers = arrays.ascontiguousarray(part[:count], dtype)
        packed[place : place + numbers.nbytes] = numbers.view(np.uint8)
    return packed


def unpack(packed: Any, header: Header, like: Any) -> Any:
    """Read a matrix, of the library and format that `like` has."""
    index = np.dtype(f"i{header.index_bytes}")
    data, *indices = (
        packed[place : place + count * dtype.itemsize].view(dtype)
        for dtype, count, place in zip(
            (header.dtype, index, index), header.counts(), header.places()[:-1], strict=True
        )
    )
    content = (data, tuple(indices)) if header.format == "coo" else (data, *indices)
    kind = class_of(like, header.format)
    return kind(content, shape=header.shape).asformat(like.format)


def combine(matrices: Sequence[Any], op: str) -> Any:
    """Reduce matrices one after the other as their library does; type and format are the first's.

    `op` is sum or else what their `*` is: see `multiplies_matrices`.
    """
    first = matrices[0]
    total = first.tocsr(copy=True) if first.format == "coo" else first.copy()
    for matrix in matrices[1:]:
        total = total + matrix if op == "sum" else total * matrix
    return total.asformat(first.format).astype(first.dtype)


def multiplies_matrices(matrix: Any) -> bool:
    """Return whether `*` is the product of matrices, as for csr_matrix; for csr_array it is not."""
    return all(kind.__name__ != "sparray" for kind in type(matrix).__mro__)


def class_of(like: Any, form: str) -> Any:
    """Return the class of this format that belongs to the library and style of `like`."""
    is_cupy = any(kind.__module__.startswith("cupyx.") for kind in type(like).__mro__)
    style = "matrix" if multiplies_matrices(like) else "array"
    module = sys.modules["cupyx.scipy.sparse" if is_cupy else "scipy.sparse"]
    return getattr(module, f"{form}_{style}")
