"""How ranks agree on communicators that are split off: one exchange of wishes, then no other."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jupyter_dist.collective.calls.call import Array
from jupyter_dist.collective.group import Group, Scope
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.rank import format_ranks

_WISH = struct.Struct("!?qq231s")
"""Takes part, color, key, what the transport has prepared."""
_MOST = 1 << 62


class SplitRequest(NamedTuple):
    """What one rank asks for."""

    color: int | None
    key: int


def check_wish(color: object, key: object, rank: int) -> SplitRequest:
    """Return the wish, or raise TypeError or UsageError before anything is sent."""
    for word, given in (("color", color), ("key", key)):
        if given is None:
            continue
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
            raise TypeError(f"split got {word}={given!r}. Accepted: an integer, or None.")
        if not -_MOST < given < _MOST:
            raise UsageError(f"split got {word}={given}. Accepted: integers below 2**62.")
    if isinstance(color, (int, np.integer)) and color < 0:
        raise UsageError(
            f"split got color={color}. Accepted: 0 and above, or None for a rank that shall be in "
            "no group."
        )
    chosen = None if color is None else int(color)  # type: ignore[call-overload]
    return SplitRequest(chosen, rank if key is None else int(key))  # type: ignore[call-overload]


def pack(wish: SplitRequest, prepared: str) -> Array:
    """Write a wish as an array that ranks can gather."""
    color = -1 if wish.color is None else wish.color
    packed = _WISH.pack(wish.color is not None, color, wish.key, prepared.encode())
    return np.frombuffer(packed, np.uint8)


def form(parent: Group, scope: Scope, told: Array) -> tuple[Group | None, list[str]]:
    """Make this rank's group of what all have told, with what its members have prepared."""
    wishes = [_WISH.unpack(row.tobytes()) for row in told]
    takes_part, color, _key, _prepared = wishes[parent.rank]
    if not takes_part:
        return None, []
    same = [rank for rank, wish in enumerate(wishes) if wish[0] and wish[1] == color]
    ordered = sorted(same, key=lambda rank: (wishes[rank][2], rank))
    prepared = [wishes[rank][3].rstrip(b"\0").decode() for rank in ordered]
    return form_of(parent, scope, ordered), prepared


def form_of(parent: Group, scope: Scope, members: Sequence[int]) -> Group:
    """Make this rank's group of these members of another one, in their order."""
    world_ranks = tuple(parent.members[rank] for rank in members)
    label = scope.label(format_ranks(world_ranks))
    return Group(members.index(parent.rank), len(members), parent.generation, label, world_ranks)
