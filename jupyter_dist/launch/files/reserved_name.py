"""A name for a cluster that nobody has named, taken before anything is started.

Starts that race would else choose the same name, and learn that from coordinators that they have
started in vain. A lock on a file beside the connection files holds the name; it ends with the
process that has it, however that ends.
"""

import contextlib
import os
import sys
from collections.abc import Collection
from itertools import count
from pathlib import Path

from jupyter_dist.launch.files.connection_file import connection_path, paths_of

if sys.platform != "win32":
    import fcntl

_SUFFIX = ".reserved"


class ReservedName:
    """A name that no other start chooses before it is closed."""

    def __init__(self, name: str, path: Path | None = None, descriptor: int = -1) -> None:
        self.name = name
        self._path, self._descriptor = path, descriptor

    def close(self) -> None:
        """Let others have the name, unless a connection file holds it by now."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._path = None


def reserve_name(taken: Collection[str]) -> ReservedName:
    """Choose the first of cluster-1, cluster-2, … that is neither taken nor being started.

    Where files cannot be locked it is free, and not reserved.
    """
    for number in count(1):
        name = f"cluster-{number}"
        if name in taken or is_held(name):
            continue
        reserved = _reserve(name)
        if reserved is None:
            continue
        if not is_held(name):  # by a start that has just ended well
            return reserved
        reserved.close()
    raise AssertionError("numbers do not end")


def is_held(name: str) -> bool:
    """Return whether something is in the place of a connection file, readable or not."""
    return any(map(os.path.lexists, paths_of(name)))


def remove_reservation(name: str) -> None:
    """Remove what a start has left that was killed; one that lives keeps its reservation."""
    if os.path.lexists(connection_path(name).with_suffix(_SUFFIX)):
        reserved = _reserve(name)
        if reserved is not None:
            reserved.close()


def _reserve(name: str) -> ReservedName | None:
    """Lock the name; None when another start has it."""
    if sys.platform == "win32":
        return ReservedName(name)
    path = connection_path(name).with_suffix(_SUFFIX)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, flags, 0o600)
        except OSError:
            return ReservedName(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return ReservedName(name, path, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # whoever had it has just removed it
        except OSError:
            os.close(descriptor)
            return ReservedName(name)
        os.close(descriptor)
