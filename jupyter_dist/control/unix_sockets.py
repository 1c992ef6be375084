"""Unix sockets between processes of one user on one machine: without keys, and not encrypted.

In their place is the folder, which the system lets no other user enter.
"""

import errno
import os
import stat
import sys


def check_folder(path: str) -> None:
    """Check the folder of a socket with this path.

    Raise OSError where there is none, and PermissionError for one that is another user's, or that
    others may enter.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "ZeroMQ has no such sockets on Windows", path)
    folder = os.lstat(os.path.dirname(path))  # a link may lead anywhere
    if folder.st_uid != os.geteuid() or folder.st_mode & 0o077:
        raise PermissionError(errno.EPERM, "others may enter its folder", path)


def can_dial(path: str) -> bool:
    """Return whether a socket of this user is there; not so in a container with another `/tmp`."""
    try:
        check_folder(path)
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
