"""What a rank is inside of, readable from outside even when its process is stuck or dead.

The recorder writes each collective into a small file mapped into memory. The host's agent reads
the file; it needs nothing from the process that wrote it.
"""

import inspect
import mmap
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_dist.model.topology import CollectiveView

if TYPE_CHECKING:  # it loads numpy, and agents read records without
    from jupyter_dist.collective.call import Call

_PACKAGE_DIR = str(Path(__file__).parent.parent) + os.sep

_MAGIC = b"JDREC001"
_HEADER = struct.Struct("=8sQ")
_HEADER_BYTES = 64
_RECORDS = 64
_RECORD = struct.Struct("=QQqq16s8s8s64si48s")
"""Lock, sequence, start, end, operation, reduction, dtype, shape, root, site."""
_RECORD_BYTES = 192
_FILE_BYTES = _HEADER_BYTES + _RECORDS * _RECORD_BYTES
_COUNT_AT = 8
_END_AT = 24
_SITE_BYTES = 48
_READ_ATTEMPTS = 5

_NUMBER = struct.Struct("=Q")
_SIGNED = struct.Struct("=q")


class CollectiveRecorder:
    """Keep the last 64 collective calls of this process in a file that others can read.

    When the file cannot be made (a full disk, say) the records stay in this process's memory and
    `is_shared` is False: recording never gets in the way of the work.
    """

    def __init__(self, path: str | os.PathLike[str], cell_prefix: str = "In[") -> None:
        self.path = Path(path)
        self.cell_prefix = cell_prefix
        """How the file names of cells begin, as the executor compiles them."""
        self.locate: Callable[[], str] = self._find_site
        """Returns where the current call was made, as `In[3]:7`."""
        self._count = 0
        self._memory, self.is_shared = _map_file(self.path)
        _HEADER.pack_into(self._memory, 0, _MAGIC, 0)

    def begin(self, call: "Call") -> int:
        """Record that a call begins now; return the token for `end`."""
        token = self._count
        at = _HEADER_BYTES + token % _RECORDS * _RECORD_BYTES
        # The lock is odd while the record is being written, and differs each time round.
        lock = 2 * token + 1
        _NUMBER.pack_into(self._memory, at, lock)
        _RECORD.pack_into(
            self._memory,
            at,
            lock,
            call.sequence,
            time.monotonic_ns(),
            0,
            call.operation.encode(),
            call.reduction.encode(),
            call.dtype.encode(),
            call.shape.encode()[:64],
            call.root,
            self.locate().encode()[:_SITE_BYTES],
        )
        _NUMBER.pack_into(self._memory, at, lock + 1)
        self._count = token + 1
        _NUMBER.pack_into(self._memory, _COUNT_AT, self._count)
        return token

    def end(self, token: int) -> None:
        """Record that the call of this token ended now, well or not."""
        if 0 <= self._count - token <= _RECORDS:
            at = _HEADER_BYTES + token % _RECORDS * _RECORD_BYTES
            _SIGNED.pack_into(self._memory, at + _END_AT, time.monotonic_ns())

    def close(self) -> None:
        """Let go of the memory; the file stays for whoever wants to read it."""
        self._memory.close()

    def _find_site(self) -> str:
        frame = inspect.currentframe()
        first_outside = None
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.cell_prefix):
                return f"{name}:{frame.f_lineno}"
            if first_outside is None and not name.startswith(_PACKAGE_DIR):
                first_outside = frame
            frame = frame.f_back
        if first_outside is None:
            return ""
        name = os.path.basename(first_outside.f_code.co_filename)
        return f"{name}:{first_outside.f_lineno}"


def _map_file(path: Path) -> tuple[mmap.mmap, bool]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError:
        return mmap.mmap(-1, _FILE_BYTES), False
    try:
        # Without blocks of its own a page of a full disk would answer the first write with SIGBUS.
        os.posix_fallocate(fd, 0, _FILE_BYTES)
        return mmap.mmap(fd, _FILE_BYTES), True
    except OSError:
        return mmap.mmap(-1, _FILE_BYTES), False
    finally:
        os.close(fd)


def read_last(path: str | os.PathLike[str], now_ns: int) -> CollectiveView | None:
    """Return the last call in a recorder's file, or None when there is none to read.

    `now_ns` is CLOCK_MONOTONIC of the same machine. A record that its writer left half written is
    passed over for the one before.
    """
    for _attempt in range(_READ_ATTEMPTS):
        first = _read_bytes(path)
        if first is None:
            return None
        count = _NUMBER.unpack_from(first, _COUNT_AT)[0]
        if not count:
            return None
        second = _read_bytes(path)
        for index in range(count - 1, max(-1, count - 3), -1):
            record = _slot(first, index)
            # A reader between two writes sees the same even lock before and after.
            is_whole = _NUMBER.unpack_from(record)[0] == 2 * index + 2
            if is_whole and second is not None and _slot(second, index)[:24] == record[:24]:
                return _view(record, now_ns)
    return None


def _read_bytes(path: str | os.PathLike[str]) -> bytes | None:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return None
    is_ours = len(content) == _FILE_BYTES and content.startswith(_MAGIC)
    return content if is_ours else None


def _slot(content: bytes, index: int) -> bytes:
    at = _HEADER_BYTES + index % _RECORDS * _RECORD_BYTES
    return content[at : at + _RECORD_BYTES]


def _view(record: bytes, now_ns: int) -> CollectiveView:
    fields = _RECORD.unpack_from(record)
    sequence, start_ns, end_ns, operation, site = *fields[1:5], fields[9]
    is_running = end_ns == 0
    return CollectiveView(
        sequence=sequence,
        operation=operation.rstrip(b"\0").decode(),
        seconds=max(0, (now_ns if is_running else end_ns) - start_ns) / 1e9,
        is_running=is_running,
        site=site.rstrip(b"\0").decode(errors="ignore"),
    )
