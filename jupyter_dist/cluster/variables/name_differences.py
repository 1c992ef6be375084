"""What of one variable differs between ranks: the odd ones named, as phrases. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.variable_facts import NameInfo
from jupyter_dist.text.lists import group_pairs

MOST_GROUPS = 4
"""Of more different values only their number is told."""

ByRank: TypeAlias = Mapping[int, NameInfo]
Group: TypeAlias = tuple[str, list[int]]
"""A text, and the ranks that have it."""


def find_differences(infos: ByRank) -> list[str]:
    """Return what differs: type, else shape, dtype and device, else value, where that is known."""
    types = _differs("type", {rank: info.type_name for rank, info in infos.items()})
    if types:
        return [types]
    found = [
        _differs(what, {rank: getattr(info, what) for rank, info in infos.items()})
        for what in ("shape", "dtype", "device")
    ]
    return list(filter(None, found)) or list(filter(None, [_values_differ(infos)]))


def find_usual(infos: ByRank, read: Callable[[NameInfo], str]) -> str:
    """Return what more than half of the ranks have, or nothing."""
    text, ranks = rank_groups({rank: read(info) for rank, info in infos.items()})[0]
    return text if 2 * len(ranks) > len(infos) else ""


def rank_groups(texts: Mapping[int, str]) -> list[Group]:
    """Group ranks with the same text: the largest first, and of equal ones that of lower ranks."""
    groups = group_pairs((text, rank) for rank, text in sorted(texts.items()))
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _differs(what: str, texts: Mapping[int, str]) -> str:
    groups = rank_groups(texts)
    if len(groups) < 2:
        return ""
    odd = _odd(groups)
    if len(odd) > MOST_GROUPS:
        return f"{what} differs: {_how_many(what, groups)}"
    return f"{what} differs: " + ", ".join(
        f"{text or 'none'} on {name_ranks(ranks)}" for text, ranks in odd
    )


def _values_differ(infos: ByRank) -> str:
    """Compare digests; previews only illustrate, for they are cut and may hold addresses."""
    groups = rank_groups({rank: info.digest for rank, info in infos.items() if info.digest})
    if len(groups) < 2:
        return ""
    odd = _odd(groups)
    if len(odd) > MOST_GROUPS:
        return f"differs: {_how_many('value', groups)}"
    shown = [(infos[ranks[0]].preview, ranks) for _, ranks in odd]
    if len({text for text, _ in shown}) == len(shown) and all(text for text, _ in shown):
        return "differs: " + ", ".join(f"{text} on {name_ranks(ranks)}" for text, ranks in shown)
    if len(odd) == len(groups):
        return "differs between " + " and ".join(name_ranks(ranks) for _, ranks in groups)
    return f"differs on {name_ranks(rank for _, ranks in odd for rank in ranks)}"


def _odd(groups: Sequence[Group]) -> Sequence[Group]:
    """Leave out the group that most ranks are in; where there is none, all are odd."""
    count = sum(len(ranks) for _, ranks in groups)
    return groups[1:] if 2 * len(groups[0][1]) > count else groups


def _how_many(what: str, groups: Sequence[Group]) -> str:
    count = sum(len(ranks) for _, ranks in groups)
    if len(groups) == count:
        return f"a different {what} on each rank"
    return f"{len(groups)} different {what}s"
