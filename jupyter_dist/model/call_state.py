"""How one call stands on one rank. Pure."""

from typing import Literal

import msgspec

from jupyter_dist.model.records import CallRecord, name_group
from jupyter_dist.model.shared_calls import SeenRank

StateKind = Literal[
    "done", "waiting", "failed", "lost", "never", "other", "older", "unread", "apart"
]


class CallState(msgspec.Struct, frozen=True):
    """What one rank did with a call."""

    kind: StateKind
    """done, waiting (it is inside), failed, lost (it ended inside), never (it has not called it),
    other (it called something else), older (not known any more), unread, apart (takes no part).
    """
    seconds: float = 0.0
    """How long it took, or has taken so far."""


def state_of(call: CallRecord, seen: SeenRank) -> CallState:
    """Say how a call stands on its rank."""
    if call.end_ns:
        seconds = max(0, call.end_ns - call.start_ns) / 1e9
        return CallState("failed" if call.has_failed else "done", seconds)
    seconds = max(0, seen.now_ns - call.start_ns) / 1e9
    return CallState("lost" if seen.records.has_ended else "waiting", seconds)


def write_call(call: CallRecord) -> str:
    """Write a call as the user did, and its group if it has one of ours."""
    if call.framework:
        return str(call)
    return f"{call} in group {name_group(call.group)}" if call.group else str(call)
