"""Which checkpoints a directory holds, read from their manifests alone."""

import os
import re

from jupyter_dist.checkpoint.storage.directory import Found, missing_parts, survey
from jupyter_dist.checkpoint.table import CheckpointSeen
from jupyter_dist.errors import CheckpointNotFound

_STEP = re.compile(r"step-\d+")


def list_checkpoints(directory: str) -> tuple[tuple[CheckpointSeen, ...], tuple[str, ...]]:
    """Return the checkpoints of a directory and of those in it, and what is wrong with others.

    One that is being written, or was not finished, has a hidden name and is not looked at.
    """
    seen: list[CheckpointSeen] = []
    problems: list[str] = []
    for name in ("", *_folders(directory)):
        try:
            found, damaged = survey(os.path.join(directory, name) if name else directory)
        except CheckpointNotFound as problem:
            problems.append(str(problem))
            continue
        seen += [_describe(name, each) for each in found]
        problems += map(str, damaged)
    return tuple(seen), tuple(problems)


def _folders(directory: str) -> list[str]:
    """Name the folders in it that may have steps."""
    try:
        with os.scandir(directory) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_dir()
                and not entry.name.startswith(".")
                and _STEP.fullmatch(entry.name) is None
            )
    except OSError:  # a survey of the directory itself says why
        return []


def _describe(name: str, found: Found) -> CheckpointSeen:
    manifest = found.manifest
    return CheckpointSeen(
        id=manifest.id,
        name=name,
        step=manifest.step,
        path=str(found.path),
        saved_at=manifest.saved_at,
        world_size=manifest.world_size,
        nbytes=manifest.nbytes,
        variables=manifest.names if manifest.kind == "variables" else (),
        missing=tuple(missing_parts(found)),
    )
