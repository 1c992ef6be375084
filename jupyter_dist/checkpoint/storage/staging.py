"""A checkpoint while it is being saved: hidden, held by who makes it, and renamed at its end."""

import contextlib
import errno
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Self

from jupyter_dist.checkpoint.file_errors import not_saved
from jupyter_dist.checkpoint.format.manifest import Manifest
from jupyter_dist.checkpoint.format.manifest_file import (
    MANIFEST_NAME,
    sync_directory,
    write_manifest,
)
from jupyter_dist.checkpoint.storage.directory import (
    LOCK_NAME,
    SAVING_PREFIX,
    refuse_existing,
    remove,
    step_name,
)
from jupyter_dist.checkpoint.storage.locks import holding, make_held, release
from jupyter_dist.descriptors import Descriptor, defer_interrupts
from jupyter_dist.errors import CheckpointFailed, UsageError

STEPS = 10**18
"""Steps are below this."""
_PART = re.compile(
    r"arrays-\d+\.safetensors|objects-\d+\.pickles|lock|\.manifest\.json\.[0-9a-f]+", re.ASCII
)


def new_id() -> str:
    """Return the id of a new checkpoint."""
    return uuid.uuid4().hex


class AlreadyMade(CheckpointFailed):
    """Someone else takes care of this checkpoint there."""


class Staging:
    """The hidden directory that becomes `DIR/step-N`. Its methods raise CheckpointFailed."""

    def __init__(self, directory: str | os.PathLike[str], step: int, checkpoint_id: str) -> None:
        """Set its paths and create nothing, so that an interrupted `make` can be discarded."""
        if not 0 <= step < STEPS:
            raise UsageError(f"step {step}. Accepted: numbers from 0 to {STEPS - 1}.")
        self._where = Path(directory).absolute()
        self.step = step
        self.final = self._where / step_name(step)
        """The name that it will have."""
        self.path = self._where / f"{SAVING_PREFIX}{self.final.name}-{checkpoint_id}"
        """Where part files are written to."""
        self._lock: Descriptor | None = None
        self._is_made = False

    def make(self) -> Self:
        """Make it, with DIR where that is missing; a step that is there already is refused.

        Raises AlreadyMade where someone has made it for this very checkpoint.
        """
        where = self._where
        try:
            _make_directories(where)
            with holding(where):
                if os.path.lexists(self.final) and not _is_unfinished(self.final):
                    raise refuse_existing(self.final)
                with defer_interrupts():
                    self.path.mkdir()
                    self._is_made = True
                    self._lock = make_held(self.path / LOCK_NAME)
        except OSError as error:
            if self._is_made:
                self.discard()
            elif isinstance(error, FileExistsError) and self.path.is_dir():
                raise AlreadyMade(f"{self.path} is there already.") from error
            raise not_saved(self.path if where.is_dir() else where, error) from error
        return self

    def commit(self, manifest: Manifest) -> None:
        """Make it a checkpoint in one step; all parts are on the disk."""
        write_manifest(self.path, manifest)
        self.publish()

    def publish(self) -> None:
        """Return it its name; without a manifest it holds only what one on another host names."""
        try:
            sync_directory(self.path)
            if _is_unfinished(self.final):
                # Left by a save that ended between this step and its manifest.
                remove(self.final)
            with defer_interrupts():
                self.path.rename(self.final)
                self._is_made = False
                self._release()
                with contextlib.suppress(OSError):
                    (self.final / LOCK_NAME).unlink()
            sync_directory(self.final.parent)
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                raise refuse_existing(self.final) from error
            raise not_saved(self.final, error) from error

    def withdraw(self) -> None:
        """Remove what `publish` has given its name, for no manifest will come."""
        if _is_unfinished(self.final):
            remove(self.final)

    def discard(self) -> None:
        """Remove it, unless it has got its name, or is another's."""
        self._release()
        if self._is_made:
            shutil.rmtree(self.path, ignore_errors=True)

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            release(lock)


def _make_directories(path: Path) -> None:
    """Make a directory and those above it; their names are on the disk then."""
    if not path.is_dir():
        _make_directories(path.parent)
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def _is_unfinished(path: Path) -> bool:
    """Return whether there are part files and nothing else: a checkpoint without a manifest."""
    if path.is_symlink():
        return False
    try:
        names = os.listdir(path)
    except OSError:
        return False
    return MANIFEST_NAME not in names and all(_PART.fullmatch(name) for name in names)
