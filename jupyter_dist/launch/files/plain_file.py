"""Files that are read because someone has named them, or because they lie where ours would."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 64 << 20
_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Windows has no such files, and no such flags."""
_KINDS = {
    stat.S_IFIFO: "it is a FIFO, and not a file",
    stat.S_IFCHR: "it is a device, and not a file",
    stat.S_IFBLK: "it is a device, and not a file",
    stat.S_IFSOCK: "it is a socket, and not a file",
}


def read_plain_file(path: Path) -> bytes:
    """Return the content of a file, at once; raises OSError for whatever has none to give."""
    try:
        # What is no file may keep a reader waiting for ever, as a FIFO that nobody writes to.
        descriptor = os.open(path, _AT_ONCE)
    except ValueError as problem:
        raise OSError(errno.EINVAL, f"no file can have this name ({problem})") from None
    try:
        status = os.fstat(descriptor)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFDIR:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if kind != stat.S_IFREG:
            raise OSError(errno.EINVAL, _KINDS.get(kind, "it is not a file"))
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has {status.st_size} bytes; {MOST_BYTES} are read")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


@contextmanager
def written_whole(path: Path, content: bytes) -> Iterator[Path]:
    """Give a draft beside the path, of its owner only, to be put there; what is left of it goes.

    It is made under a name that nobody can guess: a file of another owner would stay his.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(".draft", f"{path.name}.", path.parent)
    draft = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        yield draft
    finally:
        draft.unlink(missing_ok=True)
