"""Copies of parts on a local disk, so that a restart need not fetch them again.

    CACHE/<id of the checkpoint>/arrays-00003.safetensors

Names and sizes are looked at here; that the bytes are those of the checkpoint is seen when they
are read, as for every part.
"""

import os
import re
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from jupyter_dist.checkpoint.file_errors import is_whole
from jupyter_dist.errors import CheckpointFailed

KEPT_CHECKPOINTS = 2
_ID = re.compile(r"[0-9a-f]{32}")


def keep(cache: str | os.PathLike[str], checkpoint_id: str, parts: Iterable[Path]) -> None:
    """Keep these files of a checkpoint, and of earlier checkpoints those of the newest one only.

    On the file system of the files themselves they are linked, elsewhere copied. Raises
    CheckpointFailed when that does not work.
    """
    folder = Path(cache) / checkpoint_id
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            _put(part, folder)
        os.utime(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CheckpointFailed(
            f"parts could not be kept in the cache {os.fspath(cache)!r}: {reason}. Give another "
            "directory with `cache`, or none; the checkpoint itself does not need it."
        ) from error
    _drop_old(Path(cache), but=folder)


def find(cache: str | os.PathLike[str], checkpoint_id: str, name: str, nbytes: int) -> Path | None:
    """Return the file that may be this part: of its name and size, kept for this checkpoint."""
    path = Path(cache) / checkpoint_id / name
    return path if is_whole(path, nbytes) else None


def _put(part: Path, folder: Path) -> None:
    """Link or copy a file; nobody ever sees half of it under its name."""
    fresh = folder / f".{part.name}.{uuid.uuid4().hex}"
    try:
        try:
            os.link(part, fresh)
        except OSError:  # another file system, or one without links
            shutil.copyfile(part, fresh)
        fresh.replace(folder / part.name)
    finally:
        # Of two links to the same file, a rename leaves both.
        fresh.unlink(missing_ok=True)


def _drop_old(cache: Path, but: Path) -> None:
    """Remove checkpoints that newer ones have replaced; other ranks may be doing the same."""
    folders = [path for path in cache.iterdir() if _ID.fullmatch(path.name) and path != but]
    by_age = sorted(folders, key=_age, reverse=True)
    for folder in by_age[KEPT_CHECKPOINTS - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # removed by another rank
        return 0.0
