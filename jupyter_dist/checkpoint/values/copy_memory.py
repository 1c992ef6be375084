"""Where copies of arrays lie while they are written behind cells; kept for the next save."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from jupyter_dist.checkpoint.values.blocks import Array

SMALL_BYTES = 1 << 20
"""Less than that is quick to get again."""


class CopyMemory:
    """Memory for the copies of a save; lent until `settle`.

    The first touch of new memory takes longer than the copy itself, and cells wait for it. So what
    two saves in a row have needed is kept for the next one, and one save alone keeps nothing.
    """

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []
        self._lent: list[NDArray[np.uint8]] = []
        self._last_sizes: Counter[int] = Counter()

    @property
    def kept_bytes(self) -> int:
        """So much waits for the next save."""
        return sum(room.nbytes for room in self._free)

    def copy(self, array: Array) -> Array:
        """Copy an array, as C has it."""
        if array.nbytes < SMALL_BYTES:
            return np.array(array, copy=True)
        room = self._take(array.nbytes)
        self._lent.append(room)
        copied = room.view(array.dtype).reshape(array.shape)
        np.copyto(copied, array)
        return copied

    def settle(self) -> None:
        """Take all copies back: nobody reads them any more."""
        sizes = Counter(room.nbytes for room in self._lent)
        kept = sizes & self._last_sizes
        self._free = []
        for room in self._lent:
            if kept[room.nbytes]:
                kept[room.nbytes] -= 1
                self._free.append(room)
        self._lent, self._last_sizes = [], sizes

    def give_back(self) -> None:
        """Keep nothing for the next save."""
        self._free, self._last_sizes = [], Counter()

    def _take(self, nbytes: int) -> NDArray[np.uint8]:
        for number, room in enumerate(self._free):
            if room.nbytes == nbytes:
                return self._free.pop(number)
        # It is another tree than last time: what fits nothing goes before more is taken.
        self._free = []
        return np.empty(nbytes, np.uint8)
