"""What a host has and what joins it, in words: links, interfaces, and what is wrong with GPUs."""

from collections.abc import Sequence

from jupyter_dist.model.hosts.rank import format_ranks
from jupyter_dist.model.hosts.topology import EngineView, GpuView, HostView, LinkGroup, NicView
from jupyter_dist.text.plurals import count_of, fit
from jupyter_dist.text.sizes import tell_size
from jupyter_dist.views.outputs.grouping import group_by

OLD_SAMPLE_S = 3.0
"""Numbers that are older than this are said to be so."""
_WAYS = {
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the CPU's PCIe bridge",
    "NODE": "one NUMA node",
    "SYS": "the link between CPUs",
}
_MOST_STRANGERS = 4


def link_words(links: Sequence[LinkGroup]) -> str:
    """Write what joins GPUs: `NVLink x18 through NVSwitch: GPUs 0-7 · PCIe NODE …: …`."""
    told = []
    for name, groups in group_by(links, _link_name).items():
        pairs = "; ".join(format_ranks(group.gpus) for group in groups)
        told.append(f"{name}: GPUs {pairs}")
    return " · ".join(told)


def _link_name(group: LinkGroup) -> str:
    if group.kind == "nvlink":
        lanes = f" ×{group.lanes}" if group.lanes else ""  # noqa: RUF001
        return f"NVLink{lanes}{' through NVSwitch' if group.is_switched else ''}"
    way = f" ({_WAYS[group.kind]})" if group.kind in _WAYS else ""
    return f"PCIe {group.kind}{way}"


def nic_words(nics: Sequence[NicView]) -> str:
    """Write the network interfaces, those that are alike together."""
    told = []
    for alike in group_by(nics, lambda nic: (bool(nic.rdma), nic.speed_mbps, nic.is_up)).values():
        first = alike[0]
        names = ", ".join(f"{nic.name} ({nic.rdma})" if nic.rdma else nic.name for nic in alike)
        facts = [speed_text(first.speed_mbps) if first.is_up else "down"]
        facts.append("RDMA" if first.rdma else "")
        told.append(" ".join([names, *(fact for fact in facts if fact)]))
    return " · ".join(told)


def speed_text(mbps: int) -> str:
    """Write a speed as `400 Gb/s`; empty where it is unknown."""
    if mbps <= 0:
        return ""
    return f"{mbps} Mb/s" if mbps < 1000 else f"{mbps / 1000:g} Gb/s"


def device_words(engine: EngineView) -> str:
    """Name the GPUs of a rank: `GPU 3`, `GPUs 0-1`, or nothing."""
    devices = engine.devices or (() if engine.device is None else (engine.device,))
    return f"GPU{fit(devices, '', 's')} {format_ranks(devices)}" if devices else ""


def free_gpus(host: HostView) -> tuple[int, ...]:
    """Return the GPUs that no rank has."""
    taken = {device for engine in host.engines for device in (*engine.devices, engine.device)}
    return tuple(gpu.index for gpu in host.gpus if gpu.index not in taken)


def gpu_warnings(gpu: GpuView) -> list[str]:
    """Return what is wrong with a GPU, or unexpected of it; mostly nothing."""
    words = [gpu.problem] if gpu.problem else []
    if gpu.xid:
        words.append(f"Xid {gpu.xid} {gpu.xid_age_s:.0f} s ago")
    if gpu.ecc_errors:
        words.append(count_of(gpu.ecc_errors, "uncorrected ECC error"))
    if gpu.is_throttled:
        words.append("slowed down (heat or power)")
    if gpu.mig:
        words.append(f"MIG {gpu.mig}")
    for stranger in gpu.strangers[:_MOST_STRANGERS]:
        size = f", {tell_size(stranger.memory_bytes)}" if stranger.memory_bytes else ""
        words.append(f"used by another's {stranger.name or 'process'} (pid {stranger.pid}{size})")
    more = len(gpu.strangers) - _MOST_STRANGERS
    return [*words, f"and by {more} more"] if more > 0 else words


def host_warnings(host: HostView) -> list[str]:
    """Return what is to be known about each GPU, one sentence for each that has something."""
    found = ((gpu.index, gpu_warnings(gpu)) for gpu in host.gpus)
    return [f"GPU {index}: {', '.join(words)}" for index, words in found if words]
