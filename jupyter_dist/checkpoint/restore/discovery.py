"""What this rank sees of a directory of checkpoints, and how all agree on one of them."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from jupyter_dist.checkpoint.collective_step import together, together_as
from jupyter_dist.checkpoint.file_errors import is_whole
from jupyter_dist.checkpoint.format.manifest import Manifest
from jupyter_dist.checkpoint.format.manifest_file import (
    decode_manifest,
    encode_manifest,
    read_manifest,
)
from jupyter_dist.checkpoint.rank_group import RankGroup
from jupyter_dist.checkpoint.restore.selection import PartSeen, StepSeen, choose
from jupyter_dist.checkpoint.storage import part_cache
from jupyter_dist.checkpoint.storage.directory import step_name, steps
from jupyter_dist.errors import CheckpointError, CheckpointTooNew, UsageError

LOOK_BACK = 8
"""Of so many checkpoints each rank tells, the newest ones, when no step is asked for."""


class _Look(msgspec.Struct, frozen=True, array_like=True):
    """What a rank tells of what it sees, and what it was asked for."""

    directory: str
    step: int | None
    seen: tuple[StepSeen, ...]


class Agreed(NamedTuple):
    """The checkpoint that all ranks restore."""

    manifest: Manifest
    path: Path
    """Its directory, where this rank has one."""
    seen: tuple[frozenset[str], ...]
    """By rank, the part files that it can read."""
    paths: dict[str, tuple[Path, ...]]
    """Of this rank's own, where: in the cache first."""
    passed_over: tuple[str, ...]
    """Why newer ones were not taken, as sentences."""


def agree(
    rank_group: RankGroup, directory: str, step: int | None, cache: str | None, timeout_s: float
) -> Agreed:
    """Find the checkpoint that all ranks restore: the step asked for, or the newest that is whole.

    Raises on all ranks CheckpointNotFound, CheckpointDamaged and CheckpointTooNew.
    """
    where = Path(os.path.abspath(os.path.expanduser(directory)))
    looks = _tell_all(rank_group, _Look(directory, step, ()), where, cache, timeout_s)
    choice = choose(str(where), step, [look.seen for look in looks])
    path = where / step_name(choice.step)

    own: list[Manifest] = []

    def bring() -> bytes:
        if rank_group.rank in choice.holders:
            own.append(read_manifest(path))
        is_asked = (
            rank_group.rank == choice.holders[0] and len(choice.holders) < rank_group.world_size
        )
        return encode_manifest(own[0]) if is_asked else b""

    topic = f"checkpoint.restore(step={choice.step}), its manifest"
    brought = together(rank_group, topic, timeout_s, bring)[choice.holders[0]]
    manifest = own[0] if own else decode_manifest(brought, path)
    seen = _seen_by_rank(choice.step, manifest, looks)
    paths = {
        part.name: tuple(_places(part.name, part.nbytes, path, cache, manifest.id))
        for part in manifest.files
        if part.name in seen[rank_group.rank]
    }
    return Agreed(manifest, path, seen, paths, choice.passed_over)


def _seen_by_rank(
    step: int, manifest: Manifest, looks: Sequence[_Look]
) -> tuple[frozenset[str], ...]:
    """Give, by rank, the part files that it sees whole; none beside the manifest of another."""
    needed = {(part.name, part.nbytes) for part in manifest.files}
    return tuple(
        frozenset(
            part.name
            for one in look.seen
            if one.step == step and one.id in {"", manifest.id}
            for part in one.parts
            if (part.name, part.nbytes) in needed
        )
        for look in looks
    )


def _tell_all(
    rank_group: RankGroup, asked: _Look, where: Path, cache: str | None, timeout_s: float
) -> Sequence[_Look]:
    """Return what each rank sees; raises UsageError when ranks ask for different things."""

    def look() -> _Look:
        seen = tuple(_look_around(where, asked.step, cache))
        return msgspec.structs.replace(asked, seen=seen)

    topic = "checkpoint.restore, what there is"
    looks = together_as(_Look, rank_group, topic, timeout_s, look)
    for rank, told in enumerate(looks):
        if (told.directory, told.step) != (looks[0].directory, looks[0].step):
            raise UsageError(
                f"rank 0 restores step {looks[0].step} of {looks[0].directory!r}, and rank {rank} "
                f"step {told.step} of {told.directory!r}. Give all ranks the same directory and "
                "step (None: the newest)."
            )
    return looks


def _look_around(directory: Path, step: int | None, cache: str | None) -> Iterator[StepSeen]:
    """Yield what this rank sees, the newest first; of other steps than the asked one the number."""
    there = sorted(steps(directory), reverse=True)
    for at, (number, path) in enumerate(there):
        if step is None and at >= LOOK_BACK:
            break
        yield _look_at(number, path, cache) if step in {None, number} else StepSeen(number)


def _look_at(step: int, path: Path, cache: str | None) -> StepSeen:
    seen = {part.name: part for part in _parts(path)}
    try:
        manifest = read_manifest(path)
    except CheckpointError as error:
        is_too_new = isinstance(error, CheckpointTooNew)
        return StepSeen(step, tuple(seen.values()), trouble=str(error), is_too_new=is_too_new)
    for part in manifest.files:
        if any(_places(part.name, part.nbytes, path, cache, manifest.id)):
            seen[part.name] = PartSeen(part.name, part.nbytes)
    needs = tuple(PartSeen(part.name, part.nbytes, part.host) for part in manifest.files)
    return StepSeen(step, tuple(seen.values()), manifest.id, needs)


def _parts(path: Path) -> list[PartSeen]:
    """Return the files of a checkpoint's directory; none where they cannot be seen."""
    try:
        with os.scandir(path) as entries:
            return [
                PartSeen(entry.name, entry.stat(follow_symlinks=False).st_size)
                for entry in entries
                if entry.is_file(follow_symlinks=False)
            ]
    except OSError:  # removed meanwhile, or not ours: that its manifest cannot be read says why
        return []


def _places(
    name: str, nbytes: int, path: Path, cache: str | None, checkpoint_id: str
) -> Iterator[Path]:
    """Yield where this rank has a part file of that size."""
    if cache is not None:
        kept = part_cache.find(cache, checkpoint_id, name, nbytes)
        if kept is not None:
            yield kept
    own = path / name
    if is_whole(own, nbytes):
        yield own
