"""What the operating system says of files, in words with a next step."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from jupyter_dist.descriptors import Descriptor
from jupyter_dist.errors import CheckpointDamaged, CheckpointFailed
from jupyter_dist.text.sizes import tell_size

_FULL = "Free some space there, keep fewer checkpoints (keep_last), or give another directory."
_OTHER = "Give a directory that can be written to."
_NO_DIRECTORY = "Give a directory, not a file or what would lie below one."
_NEXT_STEPS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f), or save on more ranks.",
    errno.EROFS: _OTHER,
    errno.EACCES: _OTHER,
    errno.EPERM: _OTHER,
    errno.ENOTDIR: _NO_DIRECTORY,
    errno.EEXIST: _NO_DIRECTORY,
    errno.ENOENT: "See whether it was removed meanwhile, or cannot be made there.",
    errno.EIO: "The storage itself is failing; save into another directory.",
    errno.ESTALE: "The file server has lost it; save again, or into another directory.",
    errno.EMFILE: "Close files, or raise the limit on open ones (ulimit -n).",
}
_ANY = "Save into another directory if this one stays so."


def _describe(error: OSError) -> str:
    """Return the reason in the operating system's words, as `No space left on device`."""
    return error.strerror or str(error) or type(error).__name__


def not_saved(path: str | os.PathLike[str], error: OSError) -> CheckpointFailed:
    """Make the error for a file or directory that could not be written."""
    reason = _describe(error)
    if error.errno == errno.ENOSPC and (free := _free_bytes(Path(path))) is not None:
        reason = f"{reason} ({tell_size(free)} are free)"
    return CheckpointFailed(
        f"{os.fspath(path)}: {reason}. Nothing was overwritten. "
        f"{_NEXT_STEPS.get(error.errno or 0, _ANY)}"
    )


@contextmanager
def as_not_saved(path: Path) -> Iterator[None]:
    """Raise CheckpointFailed for this path where the block raises OSError."""
    try:
        yield
    except OSError as error:
        raise not_saved(path, error) from error


def is_whole(path: Path, nbytes: int) -> bool:
    """Return whether a regular file of this size is there; a link is none."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == nbytes


def open_saved(path: Path) -> Descriptor:
    """Open a regular file for reading; raises CheckpointDamaged, also for a link."""
    # Without O_NONBLOCK a named pipe would wait for someone who writes.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = Descriptor(partial(os.open, path, flags))
    except FileNotFoundError as error:
        raise CheckpointDamaged(
            f"{path} is missing. Restore another step, or on hosts that have this part."
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    if stat.S_ISREG(os.fstat(file.number).st_mode):
        return file
    file.close()
    raise CheckpointDamaged(f"{path} is no regular file. Restore another step.")


def unreadable(path: Path, error: OSError) -> CheckpointDamaged:
    """Make the error for a file that could not be read."""
    return CheckpointDamaged(
        f"{path} cannot be read: {_describe(error)}. Restore another step if that stays so."
    )


def _free_bytes(path: Path) -> int | None:
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
