"""Memory that all ranks of a communicator share, where they are on one host.

    what each rank has begun | in which round all agreed | headers, twice | slots of bytes, twice

Ranks go through rounds together. In a round each one writes into its own slot, arrives, and once
all have arrived reads the slots of others. Odd and even rounds have slots of their own, so that a
rank may write the next round's bytes while others still read this one's: no rank gets two rounds
ahead.

The memory has no name and goes with the last process that has it, however that ends. At the gate
lies a token for each rank but one. Who arrives takes one; who finds none is the last, puts them
back for the next round, and rings a bell, which gives each of the others a token, too. What one
rank can do for all it does before that: to compare their headers, and to reduce what is small.
"""

import errno
import fcntl
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jupyter_dist.collective.calls.call import Array
from jupyter_dist.collective.ring.wire import HEADER_BYTES

SLOT_BYTES = 1 << 20
"""Of each rank, for one round. What all ranks have under way stays in a processor's caches."""

_WORD_BYTES = 8


def open_room(size: int) -> list[int]:
    """Make the memory of so many ranks, a gate, two bells; raise OSError where that fails."""
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        fds = [os.memfd_create("jupyter-dist-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)]
        try:
            os.ftruncate(fds[0], _slots_at(size) + 2 * size * SLOT_BYTES)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(fds[0], fcntl.F_ADD_SEALS, seals)
            counter = os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC
            fds += [os.eventfd(tokens, counter) for tokens in (size - 1, 0, 0)]
        except BaseException:
            close_all(fds)
            raise
        return fds
    raise OSError(errno.ENOSYS, "this system has no such memory")


def close_all(fds: Sequence[int]) -> None:
    """Close what `open_room` gave, or what came from the rank that called it."""
    for fd in fds:
        os.close(fd)


class Room:
    """This rank's part of the shared memory; raises OSError where it cannot be mapped.

    The descriptors belong to it from then on.
    """

    def __init__(self, fds: Sequence[int], rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._memory, self._gate, *self.bells = fds
        slots_at = _slots_at(size)
        memory = mmap.mmap(self._memory, slots_at + 2 * size * SLOT_BYTES)
        words, headers = (size + 1) * _WORD_BYTES, size * HEADER_BYTES
        self._begun = memoryview(memory)[: size * _WORD_BYTES].cast("Q")
        self._agreed = memoryview(memory)[size * _WORD_BYTES : words].cast("Q")
        self._headers = [
            memoryview(memory)[start : start + headers] for start in (words, words + headers)
        ]
        slots = np.frombuffer(memory, np.uint8, offset=slots_at)
        self._slots = slots.reshape(2, size, SLOT_BYTES)
        self._typed: dict[np.dtype[Any], Array] = {}
        self.number = 0
        """Of the round that this rank has begun last."""

    def capacity(self, dtype: np.dtype[Any]) -> int:
        """Return how many elements of this type a slot takes."""
        return SLOT_BYTES // dtype.itemsize

    def slots(self, dtype: np.dtype[Any], number: int) -> Array:
        """Return the slots of all ranks in a round, a row for each."""
        typed = self._typed.get(dtype)
        if typed is None:
            typed = self._typed[dtype] = self._slots.view(dtype)
        slots: Array = typed[number & 1]
        return slots

    def write_header(self, header: bytes) -> None:
        """Write what this rank is in, for the round that comes next."""
        start = self.rank * HEADER_BYTES
        self._headers[self.number + 1 & 1][start : start + HEADER_BYTES] = header

    def headers(self) -> memoryview:
        """Return the headers of all ranks in this round, one behind the other."""
        return self._headers[self.number & 1]

    @property
    def bell(self) -> int:
        """What can be read once all are in this round."""
        return self.bells[self.number & 1]

    def note_agreement(self) -> None:
        """Let all know that the headers of this round are equal; for its last rank."""
        self._agreed[0] = self.number

    @property
    def is_agreed(self) -> bool:
        """Return whether the last rank has found the headers of this round equal."""
        return self._agreed[0] == self.number

    def arrive(self, finish: Callable[[], None] | None = None) -> bool:
        """Begin the next round; return whether all others were waiting for it, who go on now.

        Before they do, the last one finishes what all have written, if there is anything to finish.
        """
        self.number += 1
        self._begun[self.rank] = self.number
        if _has_taken_token(self._gate) or self.find_late():
            return False
        if finish is not None:
            finish()
        if sys.platform == "linux":  # no other system opens a room
            for counter in (self._gate, self.bell):
                os.eventfd_write(counter, self.size - 1)
        return True

    def leave(self) -> None:
        """Let those who come later see that this rank has left in a round, and not ended it."""
        self._begun[self.rank] = 0

    def has_rung(self) -> bool:
        """Return whether the bell has rung for this rank; true once for each round."""
        return _has_taken_token(self.bell)

    def find_late(self) -> list[int]:
        """Return the ranks that have not begun the round that this one is in, or have left it."""
        return [rank for rank, number in enumerate(self._begun) if number < self.number]

    def header_ahead(self, peer: int) -> memoryview | None:
        """Return the header of a peer that waits for this rank in a round; else None."""
        if self._begun[peer] <= self.number:
            return None
        start = peer * HEADER_BYTES
        return self._headers[self._begun[peer] & 1][start : start + HEADER_BYTES]

    def close(self) -> None:
        """Free the memory."""
        self._typed.clear()
        del self._begun, self._agreed, self._headers, self._slots
        close_all([self._memory, self._gate, *self.bells])


def _slots_at(size: int) -> int:
    """Return where slots begin, on a page of their own."""
    nbytes = _WORD_BYTES + size * (_WORD_BYTES + 2 * HEADER_BYTES)
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE


def _has_taken_token(counter: int) -> bool:
    try:
        if sys.platform == "linux":
            os.eventfd_read(counter)
    except BlockingIOError:
        return False
    return True
