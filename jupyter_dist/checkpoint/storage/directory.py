"""A directory of checkpoints: what is in it, and which of it is whole.

    DIR/step-00000012/               a checkpoint: manifest.json and part files
    DIR/.saving-step-00000013-<id>/  one that is being saved; its `lock` is held by who saves it
    DIR/.removing-<id>/              something on its way out

A checkpoint gets its name by one rename, when all of it is on the disk.
"""

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from jupyter_dist.checkpoint.file_errors import as_not_saved, is_whole
from jupyter_dist.checkpoint.format.manifest import Manifest
from jupyter_dist.checkpoint.format.manifest_file import MANIFEST_NAME, read_manifest
from jupyter_dist.checkpoint.storage.locks import holding, is_held
from jupyter_dist.errors import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointFailed,
    CheckpointNotFound,
    CheckpointTooNew,
)
from jupyter_dist.text.plurals import count_of

SAVING_PREFIX = ".saving-"
LOCK_NAME = "lock"
_REMOVING_PREFIX = ".removing-"
_STEP = re.compile(r"step-(\d{8,18})", re.ASCII)


class Found(msgspec.Struct, frozen=True):
    """A checkpoint whose manifest is whole."""

    step: int
    path: Path
    manifest: Manifest

    @property
    def world_size(self) -> int:
        """How many ranks saved it."""
        return self.manifest.world_size

    @property
    def saved_at(self) -> str:
        """UTC, as 2026-11-22T15:04:05Z."""
        return self.manifest.saved_at

    def __repr__(self) -> str:
        ranks = count_of(self.world_size, "rank")
        return f"step {self.step} in {self.path}, saved {self.saved_at} by {ranks}"


def step_name(step: int) -> str:
    """Return the name of a checkpoint's directory."""
    return f"step-{step:08d}"


def survey(directory: str | os.PathLike[str]) -> tuple[list[Found], list[CheckpointError]]:
    """Return the checkpoints by step, and why others cannot be used. Raises CheckpointNotFound.

    A directory that is not there has none; one that cannot be looked at is an error.
    """
    found: list[Found] = []
    problems: list[CheckpointError] = []
    for step, path in steps(directory):
        try:
            found.append(_read(step, path))
        except CheckpointError as error:
            problems.append(error)
    return found, problems


def find(directory: str | os.PathLike[str]) -> list[Found]:
    """Return the checkpoints whose manifest is whole, oldest first. Raises CheckpointNotFound."""
    return survey(directory)[0]


def latest(directory: str | os.PathLike[str]) -> Found | None:
    """Return the newest checkpoint whose manifest is whole. Raises CheckpointNotFound."""
    for step, path in reversed(steps(directory)):
        try:
            return _read(step, path)
        except (CheckpointDamaged, CheckpointTooNew):
            continue
    return None


def next_step(directory: str | os.PathLike[str]) -> int:
    """Return the step after the newest one there, whole or not. Raises CheckpointNotFound."""
    return max((step for step, _ in steps(directory)), default=-1) + 1


def missing_parts(found: Found) -> list[str]:
    """Return the names of part files that are not here with the size they were written with."""
    return [
        part.name
        for part in found.manifest.files
        if not is_whole(found.path / part.name, part.nbytes)
    ]


def sweep(directory: str | os.PathLike[str]) -> list[Path]:
    """Clear away what nobody is saving any more; give what that was. Raises CheckpointFailed.

    A save that lives, here or on another host of a shared file system, holds its lock.
    """
    where = Path(directory)
    swept = []
    with as_not_saved(where):
        try:
            where.stat()
        except FileNotFoundError:
            return []
        with holding(where):
            for path in _children(where):
                if path.name.startswith(SAVING_PREFIX) and not is_held(path / LOCK_NAME):
                    _set_aside(path)
                    swept.append(path)
        for path in _children(where):
            if path.name.startswith(_REMOVING_PREFIX):
                shutil.rmtree(path, ignore_errors=True)
    return swept


def prune(directory: str | os.PathLike[str], keep_last: int, newest: int) -> list[Path]:
    """Of the whole checkpoints up to step `newest` remove all but the last `keep_last`.

    Gives what these were. Later steps are left, as those of an earlier run that came further, and
    so is what is damaged or of a newer version. Raises CheckpointFailed.
    """
    if keep_last < 1:
        raise ValueError(f"keep_last={keep_last}: at least 1, for the newest one is never removed")
    old = [found for found in find(directory) if found.step <= newest][:-keep_last]
    for found in old:
        remove(found.path)
    return [found.path for found in old]


def remove(path: Path) -> None:
    """Remove a directory so that nobody ever finds a part of it. Raises CheckpointFailed."""
    shutil.rmtree(_set_aside(path), ignore_errors=True)


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{_REMOVING_PREFIX}{uuid.uuid4().hex}")
    # It is not there any more where someone else was faster.
    with as_not_saved(path), suppress(FileNotFoundError):
        path.rename(aside)
    return aside


def _read(step: int, path: Path) -> Found:
    manifest = read_manifest(path)
    if manifest.step != step:
        raise CheckpointDamaged(
            f"{path} holds step {manifest.step}. Give the directory its name back."
        )
    return Found(step, path, manifest)


def steps(directory: str | os.PathLike[str]) -> list[tuple[int, Path]]:
    """Return what has the name of a checkpoint and is a directory, oldest first.

    A directory that is not there has none. Raises CheckpointNotFound where it cannot be looked at.
    """
    where = Path(directory).absolute()
    try:
        with os.scandir(where) as entries:
            names = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointNotFound(
            f"{where} cannot be looked at: {error.strerror}. Give a directory of checkpoints."
        ) from error
    found = {int(match[1]) for name in names if (match := _STEP.fullmatch(name))}
    return [(step, where / step_name(step)) for step in sorted(found) if step_name(step) in names]


def _children(where: Path) -> Iterator[Path]:
    with os.scandir(where) as entries:
        yield from [where / entry.name for entry in entries]


def refuse_existing(path: Path) -> CheckpointFailed:
    """Make the error for a step that is there already."""
    what = "is there already" if (path / MANIFEST_NAME).exists() else "is there, without a manifest"
    return CheckpointFailed(
        f"{path} {what}. Nothing was overwritten. Save another step, or remove it first."
    )
