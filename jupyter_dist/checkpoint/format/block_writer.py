"""Bytes on their way into a file: whole blocks go past the page cache where that is possible.

Through the cache each byte is copied by the kernel into pages that it must find first, and written
by a thread of the kernel later: processor time that ranks beside it compute with, and memory that
others have in use. See open(2) on O_DIRECT: memory, place in the file and length are whole blocks.

While blocks are on their way to the disk the caller goes on, and what comes next is made ready.
"""

import contextlib
import errno
import mmap
import os
from functools import partial

import numpy as np
from numpy.typing import NDArray

from jupyter_dist.checkpoint.format.underway import Underway
from jupyter_dist.descriptors import Descriptor

BLOCK_BYTES = 4096
"""What all disks in use accept as a block; also the size of a page, on which nothing is mixed."""
ROOM_BYTES = 16 << 20
LEAST_BYTES = 1 << 20
"""Less than that is left to the cache."""
_O_DIRECT: int = getattr(os, "O_DIRECT", 0)  # macOS has none
_NOT_HERE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP)


class BlockWriter:
    """Writes to an open file, at any place; the caller closes the file, after this."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._past_cache = _open_past_the_cache(fd)
        self._rooms: list[NDArray[np.uint8]] = []
        self._underway: tuple[Underway[int], memoryview, int] | None = None

    @property
    def is_direct(self) -> bool:
        """Whether blocks go past the cache; known after the first ones."""
        return self._past_cache is not None

    def write(self, data: memoryview, offset: int) -> None:
        """Begin to write all of it there; it may change then. Raises OSError, also of earlier data.

        Nothing is certain before `flush`.
        """
        start = -offset % BLOCK_BYTES
        stop = start + (len(data) - start) // BLOCK_BYTES * BLOCK_BYTES
        if stop - start < LEAST_BYTES:
            start = stop = len(data)
        self._write_cached(data[:start], offset)
        for low in range(start, stop, ROOM_BYTES):
            self._write_blocks(data[low : min(low + ROOM_BYTES, stop)], offset + low)
        self._write_cached(data[stop:], offset + stop)

    def flush(self) -> None:
        """Have the system take all that was written, even if a disk takes less at a time."""
        underway, self._underway = self._underway, None
        if underway is None:
            return
        call, blocks, offset = underway
        written = call.wait()
        self._write_cached(blocks[written:], offset + written)
        if not written:
            self.close()  # the file system tells only when it is asked

    def close(self) -> None:
        """Let go of the way past the cache, with what is on it; an interrupt leaves that alone."""
        underway, self._underway = self._underway, None
        if underway is not None:
            with contextlib.suppress(OSError):
                underway[0].wait()
        file, self._past_cache = self._past_cache, None
        if file is not None:
            file.close()

    def _write_cached(self, data: memoryview, offset: int) -> None:
        written = 0
        while written < len(data):
            written += os.pwrite(self._fd, data[written:], offset + written)

    def _write_blocks(self, data: memoryview, offset: int) -> None:
        """Let blocks go past the cache while the caller goes on; one run of them at a time."""
        blocks = self._fill(data) if self.is_direct else data
        self.flush()
        if self._past_cache is None:
            self._write_cached(blocks, offset)
            return
        own = Descriptor(partial(os.dup, self._past_cache.number))  # for who is interrupted twice
        call = partial(_write_past_the_cache, own, blocks, offset)
        self._underway = Underway(call, "checkpoint-writer"), blocks, offset

    def _fill(self, data: memoryview) -> memoryview:
        """Copy blocks to memory that begins at a page, beside what is on its way."""
        if len(self._rooms) < 2:
            self._rooms.append(np.frombuffer(mmap.mmap(-1, ROOM_BYTES), np.uint8))
        else:
            self._rooms.reverse()
        filled = self._rooms[-1][: len(data)]
        np.copyto(filled, np.frombuffer(data, np.uint8))
        return filled.data


def _open_past_the_cache(fd: int) -> Descriptor | None:
    """Open the same file once more, for blocks alone; None where there is no such way."""
    if not _O_DIRECT:
        return None
    flags = os.O_WRONLY | _O_DIRECT | os.O_CLOEXEC
    try:
        return Descriptor(partial(os.open, f"/proc/self/fd/{fd}", flags))
    except OSError:
        return None


def _write_past_the_cache(file: Descriptor, blocks: memoryview, offset: int) -> int:
    """Write as many of these blocks as can go that way, and close it; return their bytes."""
    written = 0
    try:
        while written < len(blocks) and not written % BLOCK_BYTES:
            written += os.pwrite(file.number, blocks[written:], offset + written)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    finally:
        file.close()
    return written
