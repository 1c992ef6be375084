"""Directories that only one process and its children use, and that never stay behind.

Their names carry the process that made them, so that those of a process that was killed are
found and removed by the next one.
"""

import os
import re
import shutil
import socket
import tempfile
from pathlib import Path

from jupyter_dist.launch.lifeline import process_lives

_PREFIX = "jupyter-dist"
_NAME = re.compile(rf"{_PREFIX}-(?P<namespace>\d+)-(?P<pid>\d+)-.+")
_MEMORY = Path("/dev/shm")  # noqa: S108  (a private directory is made in it)


def make_private_dir(base: Path | None = None) -> Path:
    """Make a directory (mode 0700) below `base`, by default where temporary files go."""
    folder = base or Path(tempfile.gettempdir())
    _sweep(folder)
    prefix = f"{_PREFIX}-{pid_namespace()}-{os.getpid()}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder))


def make_memory_dir() -> Path:
    """Make one that is held in memory where the machine offers that, for small, hot files."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        return make_private_dir(_MEMORY)
    return make_private_dir()


def _sweep(folder: Path) -> None:
    """Remove what processes of ours that were killed have left."""
    for left in folder.glob(f"{_PREFIX}-*"):
        match = _NAME.fullmatch(left.name)
        if match is None or int(match["namespace"]) != pid_namespace():
            continue  # a container that shares this folder numbers its processes differently
        if not process_lives(int(match["pid"])):
            shutil.rmtree(left, ignore_errors=True)


def pid_namespace() -> int:
    """Tell apart containers, which number their processes each for themselves."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def this_machine() -> str:
    """Tell apart machines, and containers on one, where files of several lie together."""
    return f"{pid_namespace()} {socket.gethostname()}"
