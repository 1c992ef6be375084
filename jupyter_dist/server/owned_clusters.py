"""Which clusters a page may see: those of the user whom this Jupyter Server belongs to."""

import os
from stat import S_IRWXG, S_IRWXO

from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    connection_path,
    running_clusters,
)


def own_clusters() -> list[ConnectionInfo]:
    """Every running cluster whose connection file is this user's, and for nobody else to read."""
    return [info for info in running_clusters() if _is_ours(info.name)]


def _is_ours(name: str) -> bool:
    try:
        status = connection_path(name).stat()
    except OSError:
        return False  # it has just ended
    return status.st_uid == os.geteuid() and not status.st_mode & (S_IRWXG | S_IRWXO)
