"""A directory of checkpoints: what is in it, and which of it is whole.

    DIR/step-00000012/               a checkpoint: manifest.json and part files
    DIR/.saving-step-00000013-<id>/  one that is being saved; its `lock` is held by who saves it
    DIR/.removing-<id>/              something on its way out

A checkpoint gets its name by one rename, when all of it is on the disk.
"""

import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jupyter_dist.checkpoint.file_errors import not_saved
from jupyter_dist.checkpoint.locks import holding, is_held
from jupyter_dist.checkpoint.manifest_file import MANIFEST_NAME, read_manifest
from jupyter_dist.errors import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointFailed,
    CheckpointNotFound,
    CheckpointTooNew,
)
from jupyter_dist.model.checkpoint_manifest import Manifest

SAVING_PREFIX = ".saving-"
LOCK_NAME = "lock"
_REMOVING_PREFIX = ".removing-"
_STEP = re.compile(r"step-(\d{8,18})", re.ASCII)
_NAMED_STEPS = 8


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
        ranks = f"{self.world_size} rank{'s' if self.world_size != 1 else ''}"
        return f"step {self.step} in {self.path}, saved {self.saved_at} by {ranks}"


class Survey(msgspec.Struct, frozen=True):
    """All checkpoints of a directory, by step."""

    found: tuple[Found, ...]
    problems: tuple[tuple[int, CheckpointError], ...]
    """Steps whose manifest cannot be used, and why."""


def step_name(step: int) -> str:
    """Give the name of a checkpoint's directory."""
    return f"step-{step:08d}"


def survey(directory: str | os.PathLike[str]) -> Survey:
    """Look at everything that has the name of a checkpoint. Raises CheckpointNotFound.

    A directory that is not there has none; one that cannot be looked at is an error.
    """
    found: list[Found] = []
    problems: list[tuple[int, CheckpointError]] = []
    for step, path in steps(directory):
        try:
            found.append(_read(step, path))
        except CheckpointError as error:
            problems.append((step, error))
    return Survey(tuple(found), tuple(problems))


def find(directory: str | os.PathLike[str]) -> list[Found]:
    """Give the checkpoints whose manifest is whole, oldest first. Raises CheckpointNotFound."""
    return list(survey(directory).found)


def latest(directory: str | os.PathLike[str]) -> Found | None:
    """Give the newest checkpoint whose manifest is whole. Raises CheckpointNotFound."""
    for step, path in reversed(steps(directory)):
        try:
            return _read(step, path)
        except (CheckpointDamaged, CheckpointTooNew):
            continue
    return None


def at_step(directory: str | os.PathLike[str], step: int) -> Found:
    """Give the checkpoint of a step. Raises CheckpointNotFound, …Damaged and …TooNew."""
    there = dict(steps(directory))
    if step in there:
        return _read(step, there[step])
    if not there:
        raise CheckpointNotFound(
            f"{os.fspath(directory)} has no checkpoint of step {step}, and none of another step. "
            "Give the directory in which it is."
        )
    newest = sorted(there, reverse=True)
    named = ", ".join(map(str, newest[:_NAMED_STEPS]))
    more = f" and {len(newest) - _NAMED_STEPS} older ones" if len(newest) > _NAMED_STEPS else ""
    raise CheckpointNotFound(
        f"{os.fspath(directory)} has no checkpoint of step {step}. Accepted: {named}{more}, or no "
        "step for the newest."
    )


def next_step(directory: str | os.PathLike[str]) -> int:
    """Give the step after the newest one that is there, whole or not. Raises CheckpointNotFound."""
    return max((step for step, _ in steps(directory)), default=-1) + 1


def missing_parts(found: Found) -> list[str]:
    """Give the names of part files that are not here with the size they were written with."""
    return [
        part.name
        for part in found.manifest.files
        if _size_of(found.path / part.name) != part.nbytes
    ]


def sweep(directory: str | os.PathLike[str]) -> list[Path]:
    """Clear away what nobody is saving any more; give what that was. Raises CheckpointFailed.

    A save that lives, here or on another host of a shared file system, holds its lock.
    """
    where = Path(directory)
    swept = []
    try:
        if not _is_there(where):
            return []
        with holding(where):
            for path in _children(where):
                if path.name.startswith(SAVING_PREFIX) and not is_held(path / LOCK_NAME):
                    _set_aside(path)
                    swept.append(path)
        for path in _children(where):
            if path.name.startswith(_REMOVING_PREFIX):
                shutil.rmtree(path, ignore_errors=True)
    except OSError as error:
        raise not_saved(where, error) from error
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
        shutil.rmtree(_set_aside(found.path), ignore_errors=True)
    return [found.path for found in old]


def remove(path: Path) -> None:
    """Remove a directory so that nobody ever finds a part of it. Raises CheckpointFailed."""
    shutil.rmtree(_set_aside(path), ignore_errors=True)


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{_REMOVING_PREFIX}{uuid.uuid4().hex}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return aside  # somebody else was faster
    except OSError as error:
        raise not_saved(path, error) from error
    return aside


def _read(step: int, path: Path) -> Found:
    manifest = read_manifest(path)
    if manifest.step != step:
        raise CheckpointDamaged(
            f"{path} holds step {manifest.step}. Give the directory its name back."
        )
    return Found(step, path, manifest)


def steps(directory: str | os.PathLike[str]) -> list[tuple[int, Path]]:
    """Give what has the name of a checkpoint and is a directory, oldest first.

    A directory that is not there has none. Raises CheckpointNotFound where it cannot be looked at.
    """
    where = Path(directory).absolute()
    try:
        children = list(_children(where))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointNotFound(
            f"{where} cannot be looked at: {error.strerror}. Give a directory of checkpoints."
        ) from error
    found = [(match, path) for path in children if (match := _STEP.fullmatch(path.name))]
    paths = {int(match[1]): path for match, path in found if path.name == step_name(int(match[1]))}
    return sorted((step, path) for step, path in paths.items() if _is_directory(path))


def _children(where: Path) -> Iterator[Path]:
    with os.scandir(where) as entries:
        yield from [where / entry.name for entry in entries]


def _is_there(path: Path) -> bool:
    """Tell whether there is something of that name; raises OSError where that cannot be seen."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size if path.is_file() else -1
    except OSError:
        return -1


def refuse_existing(path: Path) -> CheckpointFailed:
    """Make the error for a step that is there already."""
    what = "is there already" if (path / MANIFEST_NAME).exists() else "is there, without a manifest"
    return CheckpointFailed(
        f"{path} {what}. Nothing was overwritten. Save another step, or remove it first."
    )
