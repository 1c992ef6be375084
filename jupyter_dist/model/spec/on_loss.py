"""What a cluster does on its own when a rank is lost."""

from enum import StrEnum

from jupyter_dist.errors import UsageError


class OnLoss(StrEnum):
    """In each case the running cell fails, and tells why."""

    ASK = "ask"
    """Nothing: %dist_heal, %dist_shrink and `--ranks` are for the person to choose."""
    HEAL = "heal"
    """It replaces the rank."""
    STOP = "stop"
    """It ends, as JAX's programs do when one process dies."""
    CONTINUE = "continue"
    """It goes on without the rank; the others are numbered again."""


def parse_on_loss(text: str) -> OnLoss:
    """Read what someone wants; raises UsageError."""
    try:
        return OnLoss(text)
    except ValueError:
        accepted = ", ".join(OnLoss)
        raise UsageError(f"on loss {text!r} is not understood. Accepted: {accepted}.") from None
