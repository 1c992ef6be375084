"""What joins the GPUs of this machine with each other, through NVML."""

from itertools import combinations

from jupyter_dist.model.topology import LinkGroup
from jupyter_dist.model.wiring import Pair, group_by_distance, group_by_nvlink, mark_p2p
from jupyter_dist.probe.gpus import bus_address, links_up
from jupyter_dist.probe.nvml import Gpu, as_text, list_gpus, load
from jupyter_dist.probe.pci import device_address

_DISTANCES = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""By NVML's levels; two GPUs on one board (0) have a switch between them."""
_P2P_READ, _P2P_NVLINK = 0, 2
"""Questions about two GPUs. (The module has the first one as a tuple.)"""
_P2P_OK = 0
_TO_GPU, _TO_SWITCH = 0, 2
"""Where an NVLink leads to."""


def link_groups() -> tuple[LinkGroup, ...]:
    """Say what joins each two GPUs; what the driver does not tell is not in it."""
    nvml, _ = load()
    if nvml is None:
        return ()
    gpus = [gpu for gpu in list_gpus(nvml) if gpu.handle is not None]
    distances = {}
    p2p: dict[Pair, bool] = {}
    apart = set()
    for one, other in combinations(gpus, 2):
        pair = (one.index, other.index)
        level = one.ask("TopologyCommonAncestor", other.handle)
        if level in _DISTANCES:
            distances[pair] = _DISTANCES[level]
        if (status := one.ask("P2PStatus", other.handle, _P2P_READ)) is not None:
            p2p[pair] = status == _P2P_OK
        # Switches may keep machines of several users apart.
        if one.ask("P2PStatus", other.handle, _P2P_NVLINK, default=_P2P_OK) != _P2P_OK:
            apart.add(pair)
    nvlinks = group_by_nvlink(*_count_lanes(gpus), apart)
    return mark_p2p((*nvlinks, *group_by_distance(distances)), p2p)


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
