"""What each rank brings before all do something together, and which ranks differ."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import msgspec

from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.lists import group_pairs

_Facts = TypeVar("_Facts", bound=msgspec.Struct)
_Value = TypeVar("_Value", bound=Hashable)


def gather_facts(
    context: RankContext, claim: str, facts: _Facts, timeout_s: float = 60.0
) -> dict[int, _Facts]:
    """Wait for all ranks, and return what each brings; raises what `agree` raises."""
    brought = context.agree(claim, msgspec.json.encode(facts), timeout_s)
    return {rank: msgspec.json.decode(each, type=type(facts)) for rank, each in brought.items()}


def group_ranks(by_rank: Mapping[int, _Value]) -> dict[_Value, list[int]]:
    """Return the ranks that have each value, in the order of the first of them."""
    return group_pairs((value, rank) for rank, value in by_rank.items())


def name_by_value(by_rank: Mapping[int, object]) -> str:
    """Write which ranks have what, as `2.6.0 on ranks 0-2, 2.7.1 on rank 3`."""
    return ", ".join(f"{value} on {name_ranks(who)}" for value, who in group_ranks(by_rank).items())
