"""What joins the GPUs of this machine with each other, in as few groups as hold every pair."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from jupyter_dist.model.hosts.topology import LinkGroup
from jupyter_dist.probe.gpus import bus_address, links_up, reachable_gpus
from jupyter_dist.probe.nvml import Gpu, as_text
from jupyter_dist.probe.pci import DISTANCES, device_address

Pair = tuple[int, int]
"""Two GPUs, the lower number first."""
NVLINK = "nvlink"
_BY_LEVEL = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""By NVML's levels; two GPUs on one board (0) have a switch between them."""
_P2P_NVLINK = 2
"""A question about two GPUs."""
_P2P_OK = 0
_TO_GPU, _TO_SWITCH = 0, 2
"""Where an NVLink leads to."""


def link_groups() -> tuple[LinkGroup, ...]:
    """Return what joins each two GPUs; what the driver does not tell is not in it."""
    gpus = reachable_gpus()
    distances = {}
    apart = set()
    for one, other in combinations(gpus, 2):
        pair = (one.index, other.index)
        level = one.ask("TopologyCommonAncestor", other.handle)
        if level in _BY_LEVEL:
            distances[pair] = _BY_LEVEL[level]
        # Switches may keep machines of several users apart.
        if one.ask("P2PStatus", other.handle, _P2P_NVLINK, default=_P2P_OK) != _P2P_OK:
            apart.add(pair)
    return (*group_by_nvlink(*_count_lanes(gpus), apart), *group_by_distance(distances))


def _count_lanes(gpus: list[Gpu]) -> tuple[dict[Pair, int], dict[int, int]]:
    """Count NVLinks from each GPU to each other one, and to switches."""
    places = {device_address(bus_address(gpu)): gpu.index for gpu in gpus}
    direct: dict[Pair, int] = {}
    switched: dict[int, int] = {}
    for gpu in gpus:
        for link in links_up(gpu):
            kind = gpu.ask("NvLinkRemoteDeviceType", link)
            if kind == _TO_SWITCH:
                switched[gpu.index] = switched.get(gpu.index, 0) + 1
            elif kind in (_TO_GPU, None):
                # Drivers that do not tell the kind tell the other end; a GPU that is not of this
                # container is nowhere among ours.
                pci = gpu.ask("NvLinkRemotePciInfo", link)
                other = places.get(device_address(as_text(pci.busId))) if pci is not None else None
                if other is not None and gpu.index < other:
                    direct[gpu.index, other] = direct.get((gpu.index, other), 0) + 1
    return direct, switched


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


def _nearest(groups: Sequence[LinkGroup], pair: Pair) -> LinkGroup:
    """Return the smallest group that holds both."""
    holding = (group for group in groups if set(pair) <= set(group.gpus))
    return min(holding, key=lambda group: len(group.gpus))


def _join(pairs: Iterable[Pair]) -> list[tuple[int, ...]]:
    """Return what hangs together by these pairs."""
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
