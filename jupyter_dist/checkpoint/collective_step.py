"""A step that all ranks do, and that fails on all of them when it fails on one."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from jupyter_dist.checkpoint.rank_group import RankGroup
from jupyter_dist.errors import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointFailed,
    CheckpointNotFound,
    CheckpointTooNew,
    DistError,
)
from jupyter_dist.model.ranks.user_errors import PASSED_ON, error_text, type_name

T = TypeVar("T")


class StepReport(msgspec.Struct, frozen=True):
    """What a rank brings of a step: what it has, or the name and words of its error."""

    brought: bytes = b""
    error: str = ""
    text: str = ""


def together(
    rank_group: RankGroup, topic: str, timeout_s: float, work: Callable[[], bytes | None]
) -> list[bytes]:
    """Do a step on every rank and give what each has brought of it, in rank order.

    `work` gives what this rank brings; None: nothing. Where it raises on some rank, all ranks
    raise: that rank its own error, the others a CheckpointError of that kind with its words and
    number.
    """
    error: BaseException | None = None
    try:
        told = StepReport(work() or b"")
    except PASSED_ON:
        raise
    except BaseException as problem:  # noqa: BLE001  (whatever went wrong here, others must hear it)
        name, text = type_name(problem), error_text(problem)
        # The words of our own errors say all; of others the name must be told, too.
        text = text if isinstance(problem, DistError) else f"{name}: {text}"
        error, told = problem, StepReport(b"", name, text)
    answers = rank_group.gather(topic, msgspec.msgpack.encode(told), timeout_s)
    if error is not None:
        raise error
    steps = [msgspec.msgpack.decode(answer, type=StepReport) for answer in answers]
    for rank, step in enumerate(steps):
        if step.error:
            raise _KINDS.get(step.error, CheckpointFailed)(f"rank {rank}: {step.text}")
    return [step.brought for step in steps]


def together_as(
    kind: type[T], rank_group: RankGroup, topic: str, timeout_s: float, work: Callable[[], T]
) -> list[T]:
    """Do a step as `together` does, in which each rank brings a value of this type."""
    brought = together(rank_group, topic, timeout_s, lambda: msgspec.msgpack.encode(work()))
    return [msgspec.msgpack.decode(each, type=kind) for each in brought]


_KINDS: dict[str, type[CheckpointError]] = {
    kind.__name__: kind
    for kind in (CheckpointFailed, CheckpointNotFound, CheckpointDamaged, CheckpointTooNew)
}
