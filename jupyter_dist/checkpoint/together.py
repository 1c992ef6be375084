"""A step that all ranks do, and that fails on all of them when it fails on one."""

from collections.abc import Callable

import msgspec

from jupyter_dist.checkpoint.council import Council
from jupyter_dist.errors import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointFailed,
    CheckpointNotFound,
    CheckpointTooNew,
    DistError,
)
from jupyter_dist.model.user_errors import PASSED_ON, error_text, type_name


class StepTold(msgspec.Struct, frozen=True):
    """What a rank brings of a step: what it has, or the name and words of its error."""

    brought: bytes = b""
    error: str = ""
    text: str = ""
    is_ours: bool = False
    """Its words say all; of others the name must be told, too."""


def together(
    council: Council, topic: str, timeout_s: float, work: Callable[[], bytes]
) -> list[bytes]:
    """Do a step on every rank and give what each has brought of it, in rank order.

    `work` gives what this rank brings. Where it raises on some rank, all ranks raise: that rank
    its own error, the others a CheckpointError of that kind with its words and number.
    """
    error: BaseException | None = None
    try:
        told = StepTold(work())
    except PASSED_ON:
        raise
    except BaseException as problem:  # noqa: BLE001  (whatever went wrong here, others must hear it)
        is_ours = isinstance(problem, DistError)
        error, told = problem, StepTold(b"", type_name(problem), error_text(problem), is_ours)
    answers = council.gather(topic, msgspec.msgpack.encode(told), timeout_s)
    if error is not None:
        raise error
    steps = [msgspec.msgpack.decode(answer, type=StepTold) for answer in answers]
    for rank, step in enumerate(steps):
        if step.error:
            kind = _KINDS.get(step.error, CheckpointFailed)
            text = step.text if step.is_ours else f"{step.error}: {step.text}"
            raise kind(f"rank {rank}: {text}")
    return [step.brought for step in steps]


_KINDS: dict[str, type[CheckpointError]] = {
    kind.__name__: kind
    for kind in (CheckpointFailed, CheckpointNotFound, CheckpointDamaged, CheckpointTooNew)
}
