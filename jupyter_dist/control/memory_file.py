"""Files in memory that processes of one user on one machine hand to each other by name.

They lie in no folder. The process that makes one holds it open, and others open it among that
process's open files in /proc, which Linux allows to the same user only. A random label is part of
its name: what is opened is that file or nothing, even if its numbers are those of another process
or file by then, and a process that can open it has proven that both run on one machine. Linux frees
the memory with the last process that holds or maps the file, however that one ends.
"""

import errno
import mmap
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Self
from weakref import finalize

from jupyter_dist.model.transfer.pieces import Buffer, cut_with_offsets, offsets_in_file

if sys.platform == "linux":
    import fcntl

_LABEL = "jupyter-dist-"


class MemoryFile:
    """A file in memory that this process holds open until it is closed, or dropped."""

    def __init__(self, descriptor: int, label: str) -> None:
        self._descriptor, self._label = descriptor, label
        self._closing = finalize(self, os.close, descriptor)
        self._closing.atexit = False

    @classmethod
    def make(cls) -> "MemoryFile":
        """Make an empty one; raise OSError where the system has none, or no file is left."""
        if sys.platform == "linux" and hasattr(os, "memfd_create"):
            label = f"{_LABEL}{secrets.token_hex(16)}"
            file = cls(os.memfd_create(label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), label)
            os.fchmod(file._descriptor, 0o600)
            return file
        raise _no_such_files()

    @classmethod
    def open(cls, name: str) -> "MemoryFile":
        """Open the one that another process holds; raise OSError where this name leads nowhere."""
        if sys.platform == "linux" and hasattr(os, "memfd_create"):
            pid, descriptor, label = name.split("/")
            # O_PATH: nothing happens to what has these numbers until it is known to be that file.
            found = os.open(f"/proc/{int(pid)}/fd/{int(descriptor)}", os.O_PATH | os.O_CLOEXEC)
            try:
                itself = f"/proc/self/fd/{found}"
                if os.readlink(itself) != f"/memfd:{label} (deleted)":
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
                return cls(os.open(itself, os.O_RDWR | os.O_CLOEXEC), label)
            finally:
                os.close(found)
        raise _no_such_files()

    @property
    def name(self) -> str:
        """What another process opens it by, as long as this process holds it."""
        return f"{os.getpid()}/{self._descriptor}/{self._label}"

    @property
    def used_bytes(self) -> int:
        """How much memory it takes."""
        return os.fstat(self._descriptor).st_blocks * 512

    def write(
        self, frames: Sequence[Buffer], on_moved: Callable[[int], object] | None = None
    ) -> None:
        """Write what `map` gives back; say after each piece how many bytes are written.

        Raise OSError when memory is short.
        """
        written_bytes = 0
        for offset, _, piece in cut_with_offsets(frames):
            self.write_at(offset, piece)
            written_bytes += piece.nbytes
            if on_moved is not None:
                on_moved(written_bytes)

    def write_at(self, offset: int, piece: Buffer) -> None:
        """Write one piece; raise OSError when memory is short."""
        rest = memoryview(piece)
        while rest.nbytes:
            count = os.pwrite(self._descriptor, rest, offset)
            rest, offset = rest[count:], offset + count

    def read_at(self, offset: int, size: int) -> bytes:
        """Return so many bytes, or those that there are."""
        data = os.pread(self._descriptor, size, offset)  # of more than 2 GiB it gives a part
        rest = size - len(data)
        return data + self.read_at(offset + len(data), rest) if data and rest else data

    def freeze(self) -> None:
        """Let no process change it any more, this one included; what is mapped stays writable."""
        if sys.platform == "linux":  # no other system makes one
            fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, _stays() | fcntl.F_SEAL_SEAL)

    def check(self, sizes: Sequence[int]) -> None:
        """Raise OSError unless it holds frames of these sizes, and will."""
        end = offsets_in_file(sizes)[-1]
        seals = 0
        if sys.platform == "linux":
            seals = fcntl.fcntl(self._descriptor, fcntl.F_GET_SEALS)
        if ~seals & _stays():
            raise OSError(errno.EINVAL, "it may still change")
        if os.fstat(self._descriptor).st_size < end:
            raise OSError(errno.EINVAL, f"it does not have {end} bytes")

    def map(self, sizes: Sequence[int]) -> list[memoryview]:
        """Return its frames, which have these sizes; no other process sees what is written to them.

        Raise OSError when the file is shorter, or not frozen.
        """
        self.check(sizes)
        return map_frames(self._descriptor, sizes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it; twice is fine."""
        self._closing()


def _stays() -> int:
    """Return the seals of a file that no process can change any more."""
    if sys.platform == "linux":
        return fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE
    raise _no_such_files()


def _no_such_files() -> OSError:
    return OSError(errno.ENOSYS, "this system has no such files")


def make_or_none() -> MemoryFile | None:
    """Return a new one; None where that cannot be."""
    try:
        return MemoryFile.make()
    except OSError:
        return None


def can_open(name: str) -> bool:
    """Return whether the process that holds this file is one of the same user and machine."""
    try:
        MemoryFile.open(name).close()
    except (OSError, ValueError):
        return False
    return True


def write_to(name: str, frames: Sequence[Buffer]) -> bool:
    """Write frames to a file that another process holds; return whether that went well."""
    try:
        with MemoryFile.open(name) as file:
            file.write(frames)
    except (OSError, ValueError):
        return False
    return True


def map_frozen(name: str, sizes: Sequence[int]) -> list[memoryview]:
    """Return the frames of these sizes in a file that another process holds; raise OSError."""
    with MemoryFile.open(name) as file:
        return file.map(sizes)


def map_frames(descriptor: int, sizes: Sequence[int]) -> list[memoryview]:
    """Map an open file privately, and return the frames of these sizes that lie in it.

    Processes share its memory; what one of them writes to is copied for that one, page by page.
    Unlike the module `mmap` this keeps no file open as long as a value lives. Raise OSError.
    """
    import ctypes  # with numpy: most processes that hold such files never map one

    import numpy as np

    *offsets, end = offsets_in_file(sizes)
    if os.fstat(descriptor).st_size < end:  # to look behind its end would end the process
        raise OSError(errno.EINVAL, f"it does not have {end} bytes")
    libc, access = _libc(), mmap.PROT_READ | mmap.PROT_WRITE
    address = libc.mmap(None, end, access, mmap.MAP_PRIVATE, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    block = (ctypes.c_ubyte * end).from_address(address)
    # Not at the end of the process: what runs then may still look at its values.
    finalize(block, libc.munmap, address, end).atexit = False
    whole = np.frombuffer(memoryview(block), np.uint8).data
    return [whole[offset : offset + size] for offset, size in zip(offsets, sizes, strict=True)]


@cache
def _libc() -> Any:
    """Return the C library, with the types of what is called there."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.munmap.restype = ctypes.c_void_p, ctypes.c_int
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
