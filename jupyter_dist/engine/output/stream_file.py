"""What Python's streams of a rank write to: a descriptor, line by line, so that order is kept."""

import contextlib
import io
import os
from collections import deque
from typing import Any, cast

_MOST_OF_BLOCK = 16_384
"""Bytes of a text that is kept together, at most."""
_MOST_TURNS = 1 << 16
"""Writes to stderr that are remembered: a forked child's are never asked for."""


class StreamFile:
    """The lower end of `sys.stdout` and `sys.stderr`; to close it changes nothing.

    What the descriptor does not take (the disk is full, a cell has closed it) is rescued in memory.
    Each line comes this way, so there is no buffer, and no class of `io` that looks whether it is
    closed.
    """

    closed = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.measured = descriptor
        """A descriptor of the same file, for its size; its reader sets one that no cell closes."""
        self.rescued: deque[tuple[int, bytes]] = deque()
        """Each text with its place: the size of the file when it could not be written."""
        self.blocks: deque[tuple[int, int]] = deque()
        """Where in the file lines begin and end that were written at once, as those of a table."""

    def write(self, data: Any) -> int:
        """Write all of it; return its number of bytes."""
        if data.__class__ is not bytes:  # text is; bytes of a user may come as any array
            data = bytes(data)
        size = len(data)
        if data.find(b"\n") + 1 < size:  # not just one line
            self._note_block(data)
        try:
            written = os.write(self._descriptor, data)
        except OSError as error:
            # The interpreter runs handlers of signals when the call has come back; what these
            # raise has come from a frame of theirs, and the text is written.
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise
            self.rescued.append((file_size(self.measured), data))
        else:
            if written < size:
                self.write(data[written:])
        return size

    def _note_block(self, data: bytes) -> None:
        size = len(data)
        if size > _MOST_OF_BLOCK or data.find(b"\n", 0, -1) < 0:
            return
        with contextlib.suppress(OSError):  # a cell may have closed it
            begin = os.fstat(self._descriptor).st_size
            # Before it is written: what is read meanwhile waits for the rest of the block.
            self.blocks.append((begin, begin + size))

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def flush(self) -> None:
        """Do nothing: everything is written."""

    def close(self) -> None:
        """Do nothing: other cells go on with it."""

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False

    def isatty(self) -> bool:
        """Return False."""
        return False


class ErrorFile(StreamFile):
    """That of stderr: it notes how far stdout was, so that both can be read in their order."""

    def __init__(self, descriptor: int, beside: int) -> None:
        super().__init__(descriptor)
        self._beside = beside
        self.turns: deque[tuple[int, int]] = deque(maxlen=_MOST_TURNS)
        """After each write the size that stdout had before it, and that of this file."""

    def write(self, data: Any) -> int:
        """Write all of it, and note its place; return its number of bytes."""
        beside = file_size(self._beside)
        size = super().write(data)
        self.turns.append((beside, file_size(self._descriptor)))
        return size


def file_size(descriptor: int) -> int:
    """Return the bytes of what is open there; 0 where a cell has closed it."""
    try:
        return os.fstat(descriptor).st_size
    except OSError:
        return 0


def open_stream(file: StreamFile) -> io.TextIOWrapper:
    """Return a stream for Python; what has no place in UTF-8 is written as escapes."""
    return io.TextIOWrapper(
        cast("io.BufferedWriter", file),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
