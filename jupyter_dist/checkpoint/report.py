"""What ranks tell of saving and restoring variables, put together and said in a few lines. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.lists import group_pairs, name_some, on_one_line
from jupyter_dist.text.sizes import tell_size

_MOST_REASONS = 12

Problems = dict[str, dict[str, tuple[int, ...]]]
"""For each name, for each reason, the ranks that give it."""


class RankSaved(msgspec.Struct, frozen=True):
    """What one rank tells of saving; `str()` is the same on all ranks if all is the same there."""

    directory: str
    """That holds the checkpoints of this name, one for each step."""
    path: str
    """Of the step's directory; empty while it is being written in the background."""
    step: int
    nbytes: int
    """Of all ranks together; nobody knows it yet while that goes on in the background."""
    seconds: float
    saved: tuple[str, ...] = ()
    left_out: dict[str, str] = {}
    """Names that cannot be saved, with the reason."""

    def __str__(self) -> str:
        return "\n".join(
            [_tell_saved(self), *_describe(_without_ranks(self.left_out), "not saved")]
        )


class RankRestored(msgspec.Struct, frozen=True):
    """What one rank tells of restoring; `str()` as that of RankSaved."""

    path: str
    step: int
    nbytes: int
    seconds: float
    restored: tuple[str, ...] = ()
    not_restored: dict[str, str] = {}
    """Names that are in the checkpoint and not in the namespace now, with the reason."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        problems = _describe(_without_ranks(self.not_restored), "not restored")
        return "\n".join([_tell_restored(self), *problems, *self.notes])


class CheckpointSaved(msgspec.Struct, frozen=True, kw_only=True):
    """What came of saving variables; `str()` says it in a few lines."""

    path: str
    """Of the step's directory; empty while it is being written in the background."""
    directory: str
    """That holds the checkpoints of this name, one for each step."""
    step: int
    world_size: int
    nbytes: int
    seconds: float
    saved: tuple[str, ...]
    left_out: Problems = {}

    def __str__(self) -> str:
        whose = f" of {name_ranks(range(self.world_size))}"
        text = _tell_saved(self, whose, f" in {self.seconds:.2f} s")
        return "\n".join([text, *_describe(self.left_out, "not saved")])


class CheckpointRestored(msgspec.Struct, frozen=True, kw_only=True):
    """What came of restoring variables; `str()` says it in a few lines."""

    path: str
    step: int
    world_size: int
    nbytes: int
    seconds: float
    restored: tuple[str, ...]
    not_restored: Problems = {}
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" on {name_ranks(range(self.world_size))}"
        text = _tell_restored(self, where, f" in {self.seconds:.2f} s")
        return "\n".join([text, *_describe(self.not_restored, "not restored"), *self.notes])


def merge_saved(told: Mapping[int, RankSaved]) -> CheckpointSaved:
    """Put together what the ranks tell of one checkpoint; there is at least one."""
    return CheckpointSaved(
        **_in_common(told),
        directory=told[min(told)].directory,
        saved=_union([each.saved for each in told.values()]),
        left_out=_by_reason({rank: each.left_out for rank, each in told.items()}),
    )


def merge_restored(told: Mapping[int, RankRestored]) -> CheckpointRestored:
    """Put together what the ranks tell of one checkpoint; there is at least one."""
    notes = group_pairs((note, rank) for rank, each in told.items() for note in each.notes)
    return CheckpointRestored(
        **_in_common(told),
        restored=_union([each.restored for each in told.values()]),
        not_restored=_by_reason({rank: each.not_restored for rank, each in told.items()}),
        notes=tuple(
            note if len(ranks) == len(told) else f"{name_ranks(ranks)}: {note}"
            for note, ranks in notes.items()
        ),
    )


def _in_common(told: Mapping[int, RankSaved] | Mapping[int, RankRestored]) -> dict[str, Any]:
    first = told[min(told)]
    return {
        "path": first.path,
        "step": first.step,
        "world_size": len(told),
        "nbytes": max(each.nbytes for each in told.values()),
        "seconds": max(each.seconds for each in told.values()),
    }


def _tell_saved(saved: RankSaved | CheckpointSaved, whose: str = "", took: str = "") -> str:
    what = f"{name_some(saved.saved) or 'nothing'}{whose}"
    if saved.path:
        size = tell_size(saved.nbytes)
        return f"saved {what} ({size} on disk){took} as step {saved.step}: {saved.path}"
    return (
        f"saving {what} as step {saved.step} in {saved.directory}, while cells go on; should it "
        "fail, the next cell and the next save say so"
    )


def _tell_restored(
    restored: RankRestored | CheckpointRestored, where: str = "", took: str = ""
) -> str:
    what = f"{name_some(restored.restored) or 'nothing'}{where} ({tell_size(restored.nbytes)})"
    return f"restored {what}{took} from step {restored.step}: {restored.path}"


def _union(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return every name once, in the order in which ranks have them."""
    return tuple(dict.fromkeys(name for each in names for name in each))


def _by_reason(told: Mapping[int, Mapping[str, str]]) -> Problems:
    found = group_pairs((pair, rank) for rank, own in told.items() for pair in own.items())
    problems: Problems = {}
    for (name, reason), ranks in found.items():
        problems.setdefault(name, {})[reason] = tuple(ranks)
    return problems


def _without_ranks(problems: Mapping[str, str]) -> Problems:
    """Return the problems of one rank, which has no need to name itself."""
    return {name: {reason: ()} for name, reason in problems.items()}


def _describe(problems: Problems, what: str) -> list[str]:
    """Say a sentence for each reason, names that share it (and its ranks) together."""
    names = group_pairs((each, name) for name, own in problems.items() for each in own.items())
    lines = [
        f"{what}: {name_some(each)}{f' on {name_ranks(ranks)}' if ranks else ''}"
        f" ({on_one_line(reason)})"
        for (reason, ranks), each in names.items()
    ]
    if len(lines) > _MOST_REASONS:
        lines[_MOST_REASONS:] = [f"{what}: {len(lines) - _MOST_REASONS} more, in the report"]
    return lines
