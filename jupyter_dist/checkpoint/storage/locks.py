"""Locks on files and directories that end with the process that holds them."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from jupyter_dist.checkpoint.file_errors import as_not_saved
from jupyter_dist.descriptors import Descriptor
from jupyter_dist.errors import CheckpointFailed

if sys.platform != "win32":  # where checkpoints are listed, and not made
    import fcntl

_POLL_S = 0.02


def make_held(path: Path) -> Descriptor:
    """Make a file and hold it; give the open file, with which the hold ends. Raises OSError.

    On a file system without locks the file is made all the same.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = Descriptor(partial(os.open, path, flags, 0o666))
    # Nobody else can hold it: whoever looks, holds the directory meanwhile.
    with contextlib.suppress(OSError):
        fcntl.flock(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def is_held(path: Path) -> bool:
    """Return whether the maker of this file may be alive; False where there is no file."""
    if sys.platform == "win32":
        return os.path.lexists(path)
    try:
        file = Descriptor(partial(os.open, path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    with file:
        try:
            fcntl.flock(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # Held, or there are no locks here: what cannot be known is left alone.
            return True
    return False


def release(file: Descriptor) -> None:
    """End a hold, also for processes that were forked meanwhile, and close the file."""
    with contextlib.suppress(OSError):
        fcntl.flock(file.number, fcntl.LOCK_UN)
    file.close()


@contextlib.contextmanager
def holding(directory: Path, timeout_s: float = 30.0) -> Iterator[None]:
    """Have others wait who are about to make or clear away what is being saved there.

    Where directories cannot be held (NFS) this is empty. Raises CheckpointFailed.
    """
    with as_not_saved(directory):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        file = Descriptor(partial(os.open, directory, flags))
    try:
        _wait_for(file.number, directory, timeout_s)
        yield
    finally:
        release(file)


def _wait_for(fd: int, directory: Path, timeout_s: float) -> None:
    until_s = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            # Others hold it for some milliseconds; there is no way to be told when they are done.
            if time.monotonic() > until_s:
                raise CheckpointFailed(
                    f"{directory}: another process that saves there has held it for "
                    f"{timeout_s:g} s. See whether it is stopped (fuser -v {directory}), or save "
                    "into another directory."
                ) from error
            time.sleep(_POLL_S)
        except OSError:
            return
        else:
            return
