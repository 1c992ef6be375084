"""What joins the GPUs of a host, said in as few groups as hold every pair."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from msgspec.structs import replace

from jupyter_dist.model.topology import LinkGroup

Pair = tuple[int, int]
"""Two GPUs, the lower number first."""
NVLINK = "nvlink"
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Nearest first: one PCIe switch, several, a host bridge, within a NUMA node, between nodes."""


def group_by_distance(distances: Mapping[Pair, str]) -> tuple[LinkGroup, ...]:
    """Group GPUs by the way between them on PCIe, one of DISTANCES for each pair that is known."""
    groups: list[LinkGroup] = []
    found: set[tuple[int, ...]] = set()
    for place, kind in enumerate(DISTANCES):
        near = [pair for pair, each in distances.items() if DISTANCES.index(each) <= place]
        for gpus in _join(near):
            if gpus not in found:
                found.add(gpus)
                groups.append(LinkGroup(kind=kind, gpus=gpus))
    # A hypervisor may tell ways that do not nest; such a pair stands for itself.
    odd = [pair for pair, kind in distances.items() if _nearest(groups, pair).kind != kind]
    return tuple(groups + [LinkGroup(kind=distances[pair], gpus=pair) for pair in sorted(odd)])


def group_by_nvlink(
    direct: Mapping[Pair, int], switched: Mapping[int, int], apart: Collection[Pair] = ()
) -> tuple[LinkGroup, ...]:
    """Group GPUs by their NVLinks.

    `direct` has the lanes between two GPUs, `switched` those from a GPU to switches; `apart` are
    pairs that do not reach each other through these switches.
    """
    groups: list[LinkGroup] = []
    for lanes in sorted(set(switched.values()), reverse=True):
        members = sorted(gpu for gpu, own in switched.items() if own >= lanes)
        pairs = [pair for pair in combinations(members, 2) if pair not in apart]
        for gpus in _cliques(pairs):
            if not any(set(gpus) <= set(group.gpus) for group in groups):
                groups.append(LinkGroup(kind=NVLINK, gpus=gpus, lanes=lanes, is_switched=True))
    for lanes in sorted(set(direct.values()), reverse=True):
        pairs = [pair for pair, own in direct.items() if own == lanes]
        groups += [LinkGroup(kind=NVLINK, gpus=gpus, lanes=lanes) for gpus in _cliques(pairs)]
    return tuple(groups)


def mark_p2p(groups: Iterable[LinkGroup], p2p: Mapping[Pair, bool]) -> tuple[LinkGroup, ...]:
    """Note of each group whether its GPUs may read each other's memory, where all agree."""

    def answer(group: LinkGroup) -> bool | None:
        answers = {p2p.get(pair) for pair in combinations(group.gpus, 2)}
        return answers.pop() if len(answers) == 1 else None

    return tuple(replace(group, has_p2p=answer(group)) for group in groups)


def _nearest(groups: Sequence[LinkGroup], pair: Pair) -> LinkGroup:
    """Give the smallest group that holds both."""
    holding = (group for group in groups if set(pair) <= set(group.gpus))
    return min(holding, key=lambda group: len(group.gpus))


def _join(pairs: Iterable[Pair]) -> list[tuple[int, ...]]:
    """Give what hangs together by these pairs."""
    parts: list[set[int]] = []
    for pair in pairs:
        touching = [part for part in parts if part & set(pair)]
        parts = [part for part in parts if not part & set(pair)]
        parts.append(set(pair).union(*touching))
    return sorted(tuple(sorted(part)) for part in parts)


def _cliques(pairs: Collection[Pair]) -> list[tuple[int, ...]]:
    """Cover these pairs by groups in which each two are one of them."""
    known, open_pairs, found = set(pairs), set(pairs), []
    everyone = sorted({gpu for pair in pairs for gpu in pair})
    while open_pairs:
        members = list(min(open_pairs))
        for gpu in everyone:
            if gpu not in members and all(tuple(sorted((gpu, m))) in known for m in members):
                members.append(gpu)
        members.sort()
        open_pairs -= set(combinations(members, 2))
        found.append(tuple(members))
    return found
