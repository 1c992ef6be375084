"""Which checkpoint is restored, by what each rank sees of a directory."""

from collections.abc import Iterator, Sequence

import msgspec

from jupyter_dist.errors import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointNotFound,
    CheckpointTooNew,
)
from jupyter_dist.model.hosts.rank import number_ranks
from jupyter_dist.text.lists import name_some


class PartSeen(msgspec.Struct, frozen=True, array_like=True):
    """A file with a part of a checkpoint, or what its manifest says of it."""

    name: str
    nbytes: int
    host: str = ""
    """Of the rank that wrote it; empty where the file itself is meant."""


class StepSeen(msgspec.Struct, frozen=True, array_like=True):
    """What one rank sees of one checkpoint."""

    step: int
    parts: tuple[PartSeen, ...] = ()
    """The files that it can read, from the directory or its cache."""
    id: str = ""
    """Of the manifest here; empty where none can be read."""
    needs: tuple[PartSeen, ...] = ()
    """The files that the manifest names."""
    trouble: str = ""
    """Why the manifest that is here cannot be read."""
    is_too_new: bool = False


class Choice(msgspec.Struct, frozen=True):
    """The checkpoint that all ranks restore."""

    step: int
    holders: tuple[int, ...]
    """Ranks that have its manifest."""
    passed_over: tuple[str, ...] = ()
    """Why later ones were not chosen, as sentences."""


def choose(directory: str, step: int | None, seen: Sequence[Sequence[StepSeen]]) -> Choice:
    """Choose the asked step, or the newest checkpoint that is whole; `seen` is by rank.

    Raises CheckpointNotFound, CheckpointDamaged or CheckpointTooNew saying what is there instead.
    """
    steps = sorted({one.step for own in seen for one in own}, reverse=True)
    if step is not None and step not in steps:
        raise CheckpointNotFound(_no_such_step(directory, step, steps))
    problems: list[CheckpointError] = []
    for number in steps if step is None else [step]:
        found = _judge(directory, number, seen)
        if isinstance(found, Choice):
            return msgspec.structs.replace(found, passed_over=tuple(map(str, problems)))
        problems.append(found)
    if problems:
        raise problems[0]
    raise CheckpointNotFound(
        f"{directory} has no checkpoint. Save one there first (checkpoint.save, %dist_checkpoint), "
        "or give the directory in which there is one."
    )


def _judge(
    directory: str, step: int, seen: Sequence[Sequence[StepSeen]]
) -> Choice | CheckpointError:
    here = [(rank, one) for rank, own in enumerate(seen) for one in own if one.step == step]
    ids = list(dict.fromkeys(one.id for _, one in here if one.id))
    problem = _manifest_problem(directory, step, here)
    for checkpoint_id in ids:
        holders = tuple(rank for rank, one in here if one.id == checkpoint_id)
        needs = next(one.needs for _, one in here if one.id == checkpoint_id)
        # A host whose manifest was lost may still have its parts; digests tell what they are.
        there = [one for _, one in here if one.id in {"", checkpoint_id}]
        lacking = list(_lacking(needs, there))
        if not lacking:
            return Choice(step, holders)
        problem = CheckpointDamaged(
            f"step {step} in {directory} is not whole: {'; '.join(lacking)}. Start a cluster on "
            "hosts that have them, or restore another step."
        )
    return problem


def _manifest_problem(
    directory: str, step: int, here: Sequence[tuple[int, StepSeen]]
) -> CheckpointError:
    for is_too_new in (True, False):
        for rank, one in here:
            if one.trouble and one.is_too_new == is_too_new:
                kind = CheckpointTooNew if is_too_new else CheckpointDamaged
                return kind(f"rank {rank}: {one.trouble}")
    ranks = number_ranks([rank for rank, _ in here])
    return CheckpointDamaged(
        f"step {step} in {directory} has no manifest: {ranks} only see parts of it. It was saved "
        "on several hosts, and the one with the manifest is not here; add it, or restore another "
        "step."
    )


def _lacking(needs: Sequence[PartSeen], there: Sequence[StepSeen]) -> Iterator[str]:
    """Yield which files no rank sees as they were written."""
    sizes: dict[str, set[int]] = {}
    for one in there:
        for part in one.parts:
            sizes.setdefault(part.name, set()).add(part.nbytes)
    for part in needs:
        found = sizes.get(part.name, set())
        if part.nbytes in found:
            continue
        if found:
            yield f"{part.name} has {max(found)} bytes instead of {part.nbytes}"
        else:
            yield f"no rank sees {part.name}, which was written on {part.host}"


def _no_such_step(directory: str, step: int, steps: Sequence[int]) -> str:
    if not steps:
        return (
            f"{directory} has no checkpoint of step {step}, and none of another step. Give the "
            "directory in which it is."
        )
    named = name_some(list(map(str, steps)))
    return (
        f"{directory} has no checkpoint of step {step}. Accepted: {named}, or no step for the "
        "newest."
    )
