"""What the operating system says of files, in words with a next step."""

import errno
import os
from pathlib import Path

from jupyter_dist.errors import CheckpointFailed

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


def describe(error: OSError) -> str:
    """Give the reason in the operating system's words, as `No space left on device`."""
    return error.strerror or str(error) or type(error).__name__


def not_saved(path: str | os.PathLike[str], error: OSError) -> CheckpointFailed:
    """Make the error for a file or directory that could not be written."""
    reason = describe(error)
    if error.errno == errno.ENOSPC and (free := _free_bytes(Path(path))) is not None:
        reason = f"{reason} ({free / 2**20:.0f} MiB are free)"
    return CheckpointFailed(
        f"{os.fspath(path)}: {reason}. Nothing was overwritten. "
        f"{_NEXT_STEPS.get(error.errno or 0, _ANY)}"
    )


def _free_bytes(path: Path) -> int | None:
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
