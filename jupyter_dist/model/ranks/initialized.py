"""What frameworks have formed with the other ranks: JAX's mesh, torch's default group. Pure.

What was formed holds until ranks are out of step: one is new or gone, one has begun other
collectives than the rest, or someone had to break what they waited in.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.plurals import fit


class Formed(msgspec.Struct, frozen=True):
    """What one framework of one rank has formed."""

    name: str
    """jax, torch, cupy or mpi."""
    generation: int
    """The one that it was formed in, or 0: its collectives are with nobody."""
    world_size: int
    calls: int = 0
    """Collectives that were begun since; equally many on all ranks that are in step."""
    is_broken: bool = False
    """Its collectives do not work any more."""
    settings: str = ""
    """How it was formed, in words of the framework's own; who joins later does it like that."""


class FrameworkPlan(msgspec.Struct, frozen=True):
    """What becomes of one framework in a new generation; the same on all ranks."""

    name: str
    is_kept: bool = False
    """What was formed goes on; else all ranks form it again."""
    reason: str = ""
    """Why it cannot be kept, as `rank 2 is new`."""
    settings: str = ""


def plan_frameworks(
    formed: Mapping[int, Sequence[Formed]], world_size: int, always: Iterable[str] = ()
) -> tuple[FrameworkPlan, ...]:
    """Decide for each framework that some rank has formed, and for those formed at every start.

    `formed` has what each rank of the new generation brings along.
    """
    by_name: dict[str, dict[int, Formed]] = {name: {} for name in always}
    for rank, each in formed.items():
        for one in each:
            by_name.setdefault(one.name, {})[rank] = one
    return tuple(
        _plan(name, by_rank, tuple(formed), world_size) for name, by_rank in by_name.items()
    )


def _plan(
    name: str, by_rank: Mapping[int, Formed], ranks: Sequence[int], world_size: int
) -> FrameworkPlan:
    reason = _why_not_kept(by_rank, ranks, world_size)
    settings = next((one.settings for _, one in sorted(by_rank.items()) if one.settings), "")
    return FrameworkPlan(name, not reason, reason, settings)


def _why_not_kept(by_rank: Mapping[int, Formed], ranks: Sequence[int], world_size: int) -> str:
    """Return what is out of step; empty: nothing is."""
    if not by_rank:
        return "this is the beginning"
    if lacking := sorted(set(ranks) - set(by_rank)):
        return f"{name_ranks(lacking)} {fit(lacking, 'has', 'have')} not formed it"
    if any(one.world_size != world_size for one in by_rank.values()):
        before = next(one.world_size for one in by_rank.values() if one.world_size != world_size)
        return f"there were {before} ranks"
    if broken := sorted(rank for rank, one in by_rank.items() if one.is_broken):
        return f"a collective was broken off on {name_ranks(broken)}"
    if len({one.generation for one in by_rank.values()}) > 1:
        return "ranks have formed it at different times"
    counts = {rank: one.calls for rank, one in by_rank.items()}
    if len(set(counts.values())) > 1:
        fewest = min(counts.values())
        behind = name_ranks(rank for rank, calls in counts.items() if calls == fewest)
        return f"{behind} began {fewest} collectives, others {max(counts.values())}"
    return ""
