"""Directories that only one process and its children use, and that never stay behind.

Their names carry the process that made them, so that those of a process that was killed are
found and removed by the next one.
"""

import contextlib
import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from time import monotonic

from jupyter_dist.launch.processes.process_life import process_lives

_PREFIX = "jupyter-dist"
_NAME = re.compile(rf"{_PREFIX}-(?P<namespace>\d+)-(?P<pid>\d{{1,9}})-.+")
_MEMORY = Path("/dev/shm")  # noqa: S108  (a private directory is made in it)
_SWEEP_S = 0.2
"""So long a start looks for leftovers; folders that others have filled are read no further."""


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


def sweep_private_dirs() -> None:
    """Remove the directories of this user's processes on this machine that were killed."""
    for folder in (Path(tempfile.gettempdir()), _MEMORY):
        _sweep(folder)


def _sweep(folder: Path) -> None:
    """Remove what processes of ours that were killed have left.

    Others may write into this folder: what is not a directory of ours is never opened, and where
    they have filled it, the rest is left for another time.
    """
    until_s = monotonic() + _SWEEP_S
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if monotonic() > until_s:
                return
            if _is_left_behind(entry.name):
                remove_own_dir(Path(entry.path))


def _is_left_behind(name: str) -> bool:
    if not name.startswith(_PREFIX) or (match := _NAME.fullmatch(name)) is None:
        return False
    # A container that shares this folder numbers its processes differently.
    return int(match["namespace"]) == pid_namespace() and not process_lives(int(match["pid"]))


def remove_own_dir(path: Path) -> None:
    """Remove a directory with all that is in it, unless it is a link or that of another user.

    It is held open meanwhile, so that nothing else can take its place.
    """
    if sys.platform == "win32":  # where each user has a folder for temporary files
        import shutil

        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return  # FIFOs, links and files end here: O_DIRECTORY opens nothing else
    try:
        if os.fstat(held).st_uid != os.geteuid():
            return
        for name in os.listdir(held):
            _remove_entry(name, held)
        with contextlib.suppress(OSError):
            path.rmdir()
    finally:
        os.close(held)


def _remove_entry(name: str, held: int) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.lstat(name, dir_fd=held).st_mode):
            import shutil

            shutil.rmtree(name, ignore_errors=True, dir_fd=held)
        else:
            os.unlink(name, dir_fd=held)


def pid_namespace() -> int:
    """Tell apart containers, which number their processes each for themselves."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def this_machine() -> str:
    """Tell apart machines, and containers on one, where files of several lie together."""
    import socket

    return f"{pid_namespace()} {socket.gethostname()}"
