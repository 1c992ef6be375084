"""Where the result of one operation goes, and what the caller gets to see of it."""

from typing import Any

import numpy as np

from jupyter_dist.collective.calls.arrays import Library
from jupyter_dist.collective.calls.call import Array


class OutputBuffer:
    """Room for a result: the caller's `out`, or a new array in the library of the input."""

    def __init__(self, view: Array, out: Any, library: Library) -> None:
        self.view = view
        self.library = library
        self.work = view
        """Where the operation writes: beside `out`, so that a failed one leaves that as it was."""
        self._out = out

    def keep_safe(self, source: Array | None = None) -> Array:
        """Return a place to work in; `out` itself only if that is the input as well."""
        if self._out is not None and not _is_same_memory(source, self.view):
            self.work = np.empty(self.view.shape, self.view.dtype)
        return self.work

    def settle(self, divisor: int = 1) -> None:
        """Put the result into its place, divided by the number of ranks for an average."""
        if divisor != 1:
            _divide(self.work, divisor)
        if self.work is not self.view:
            np.copyto(self.view, self.work)

    def answer(self) -> Any:
        """Return what the caller gets back."""
        return self._out if self._out is not None else self.library.wrap(self.view)


def _divide(array: Array, divisor: int) -> None:
    """Divide in place, rounding once; each part of complex numbers for itself."""
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    for part in parts:
        exact = np.asarray(divisor, part.dtype)
        if float(exact) == divisor:
            np.divide(part, exact, out=part)
        else:  # float8_e4m3fn has 16 and 18, but no 17
            part[...] = (part.astype(np.float32) / np.float32(divisor)).astype(part.dtype)


def _is_same_memory(array: Array | None, view: Array) -> bool:
    if array is None or array.shape != view.shape:
        return False
    return array is view or _address(array) == _address(view)


def _address(array: Array) -> int:
    # Many times faster than array.ctypes.data.
    address: int = array.__array_interface__["data"][0]
    return address
