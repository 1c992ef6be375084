"""Which clusters a page may see: those of the user whom this Jupyter Server belongs to."""

import os
import sys
from stat import S_IRWXG, S_IRWXO

from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    path_of,
    running_clusters,
)


def own_clusters() -> list[ConnectionInfo]:
    """Every running cluster whose connection file is this user's, and for nobody else to read."""
    return [info for info in running_clusters() if _is_ours(info)]


def _is_ours(info: ConnectionInfo) -> bool:
    try:
        status = path_of(info).stat()
    except OSError:
        return False  # it has just ended
    if sys.platform == "win32":  # where the folder of these files is the user's alone
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (S_IRWXG | S_IRWXO)
