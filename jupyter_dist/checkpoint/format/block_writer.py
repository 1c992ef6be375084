"""Bytes on their way into a file: whole blocks go past the page cache where that is possible.

Through the cache each byte is copied by the kernel into pages that it must find first, and written
by a thread of the kernel later: processor time that ranks beside it compute with, and memory that
others have in use. See open(2) on O_DIRECT: memory, place in the file and length are whole blocks.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 4096
"""What all disks in use accept as a block; also the size of a page, on which nothing is mixed."""
ROOM_BYTES = 16 << 20
LEAST_BYTES = 1 << 20
"""Less than that is left to the cache."""
_O_DIRECT: int = getattr(os, "O_DIRECT", 0)  # macOS has none
_NOT_HERE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)


class BlockWriter:
    """Writes to an open file, at any place; whoever gave the file closes it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._room: NDArray[np.uint8] | None = None
        self.is_direct = bool(_O_DIRECT)
        """Whether blocks go past the cache; known after the first ones."""

    def write(self, data: memoryview, offset: int) -> None:
        """Write all of it there, even if a disk takes less at a time. Raises OSError."""
        start = -offset % BLOCK_BYTES
        stop = start + (len(data) - start) // BLOCK_BYTES * BLOCK_BYTES
        if stop - start < LEAST_BYTES:
            start = stop = 0
        self._write_cached(data[:start], offset)
        done = start + self._write_blocks(data[start:stop], offset + start)
        self._write_cached(data[done:], offset + done)

    def _write_cached(self, data: memoryview, offset: int) -> None:
        written = 0
        while written < len(data):
            written += os.pwrite(self._fd, data[written:], offset + written)

    def _write_blocks(self, data: memoryview, offset: int) -> int:
        """Write as many of these blocks as go past the cache; give their bytes."""
        written = 0
        while self.is_direct and written < len(data):
            room = self._fill(data[written : written + ROOM_BYTES])
            try:
                with self._past_the_cache():
                    written += os.pwrite(self._fd, room, offset + written)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                self.is_direct = False  # the file system tells only when it is asked
            if written % BLOCK_BYTES:
                break
        return written

    def _fill(self, data: memoryview) -> memoryview:
        """Copy blocks to memory that begins at a page."""
        if self._room is None:
            self._room = np.frombuffer(mmap.mmap(-1, ROOM_BYTES), np.uint8)
        filled = self._room[: len(data)]
        np.copyto(filled, np.frombuffer(data, np.uint8))
        return filled.data

    @contextmanager
    def _past_the_cache(self) -> Iterator[None]:
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        fcntl.fcntl(self._fd, fcntl.F_SETFL, flags | _O_DIRECT)
        try:
            yield
        finally:
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags)
