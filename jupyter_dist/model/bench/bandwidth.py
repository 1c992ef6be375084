"""What the links between ranks promise, in GB/s (1e9 bytes per second) per direction."""

from collections.abc import Iterable, Sequence

import msgspec

from jupyter_dist.model.hosts.topology import GpuLinks, Topology
from jupyter_dist.text.plurals import count_of

_NVLINK_GB_PER_S = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
"""Of one link, by version."""
_PCIE_GB_PER_S = {3: 0.985, 4: 1.969, 5: 3.938, 6: 7.56}
"""Of one lane, by generation."""
_TIMES = "\N{MULTIPLICATION SIGN}"


class RankPath(msgspec.Struct, frozen=True):
    """By what the data of one rank comes and goes."""

    host: str
    interface: str = ""
    """Of its host's data path; empty: loopback."""
    speed_mbps: int = 0
    """Of that interface; 0: unknown."""
    gpu: GpuLinks | None = None
    """The device in which the data lies; None: it lies in the memory of the host."""


class Promise(msgspec.Struct, frozen=True):
    """What the links between the ranks can carry at best."""

    gb_per_s: float | None
    """None: nobody knows."""
    words: str
    """Where that comes from, as `eth0, 25 Gbit/s`; or why it is not known."""


def paths_of(topology: Topology, kind: str) -> tuple[RankPath, ...]:
    """Return the path of each rank, in rank order, for a communicator of this kind."""
    found = {}
    for host in topology.hosts:
        gpus = {gpu.index: gpu for gpu in host.gpu_links} if kind == "nccl" else {}
        for engine in host.engines:
            gpu = None if engine.device is None else gpus.get(engine.device)
            found[engine.rank] = RankPath(host.name, host.interface, host.interface_mbps, gpu)
    return tuple(path for _, path in sorted(found.items()))


def promise_of(paths: Sequence[RankPath]) -> Promise:
    """Return what busbw can be at best: of the slowest link that all data must pass.

    Within a host that is NVLink, else PCIe; between hosts the slowest interface as well.
    """
    if len(paths) < 2:
        return Promise(None, "there is one rank only")
    by_host: dict[str, list[RankPath]] = {}
    for path in paths:
        by_host.setdefault(path.host, []).append(path)
    if len(by_host) == 1:
        return _within(paths)
    network = _between([members[0] for members in by_host.values()])
    inside = (_within(members) for members in by_host.values() if len(members) > 1)
    return network if network.gb_per_s is None else _slowest([network, *inside])


def _slowest(promises: Iterable[Promise]) -> Promise:
    known = (promise for promise in promises if promise.gb_per_s is not None)
    return min(known, key=lambda promise: promise.gb_per_s or 0.0)


def _within(paths: Sequence[RankPath]) -> Promise:
    """Return what ranks of one host can expect among each other."""
    gpus = [path.gpu for path in paths if path.gpu is not None]
    if len(gpus) < len(paths):
        return Promise(None, "loopback")
    if len({gpu.index for gpu in gpus}) < len(gpus):
        return Promise(None, "ranks share a device")
    for promises in ([_by_nvlink(gpu) for gpu in gpus], [_by_pcie(gpu) for gpu in gpus]):
        if all(promise.gb_per_s for promise in promises):
            return _slowest(promises)
    return Promise(None, "the driver does not tell the speed of the GPUs' links")


def _by_nvlink(gpu: GpuLinks) -> Promise:
    words = f"NVLink {gpu.nvlink_version} {_TIMES} {count_of(gpu.nvlink_count, 'link')}"
    return Promise(_NVLINK_GB_PER_S.get(gpu.nvlink_version, 0.0) * gpu.nvlink_count, words)


def _by_pcie(gpu: GpuLinks) -> Promise:
    words = f"PCIe {gpu.pcie_generation} {_TIMES} {count_of(gpu.pcie_lanes, 'lane')}"
    return Promise(_PCIE_GB_PER_S.get(gpu.pcie_generation, 0.0) * gpu.pcie_lanes, words)


def _between(hosts: Sequence[RankPath]) -> Promise:
    """Return what hosts can expect among each other; `hosts` has one path of each."""
    promises = []
    for path in hosts:
        if not path.interface:
            return Promise(None, "loopback")
        if path.speed_mbps <= 0:
            return Promise(None, f"{path.interface} of {path.host} does not tell its speed")
        words = f"{path.interface}, {path.speed_mbps / 1000:g} Gbit/s"
        promises.append(Promise(path.speed_mbps / 8000, words))
    return _slowest(promises)
