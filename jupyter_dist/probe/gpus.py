"""The GPUs of this machine through NVML; a machine without NVML has no GPU."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from jupyter_dist.model.hosts.topology import GpuLinks, GpuView
from jupyter_dist.probe.gpu_processes import list_strangers, memory_by_process, process_name
from jupyter_dist.probe.nvml import Gpu, as_text, list_gpus, load, load_again
from jupyter_dist.probe.nvml import count_gpus as count_with
from jupyter_dist.text.plurals import count_of

_CONTROL = Path("/dev/nvidiactl")
"""There where the driver's devices can be used: also in a container that was given them."""
_NVLINK_VERSIONS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5}
"""By NVML's codes, which count 2.2 and 3.1 as well."""
_NVLINK_OF_HOPPER = 4
"""What it has; some drivers say 5."""
_THROTTLED = 0x20 | 0x40 | 0x80
"""Too hot (as the driver or the GPU itself finds), or braked by the power supply.

Not the limit of power: under full load that is how GPUs work.
"""

_MOST_ERRORS_AT_ONCE = 256
"""A GPU in trouble may tell of one error for each of its channels."""
RELOAD_INTERVAL_S = 30.0
"""How often NVML is opened again, at most, while the driver is away."""


def count_gpus() -> int:
    """Count the GPUs of this machine."""
    return count_with(load()[0])


def gpu_problem() -> str:
    """Return why GPUs cannot be asked where their driver is there; else empty."""
    _, problem = load()
    return problem if _CONTROL.exists() else ""


def reachable_gpus() -> list[Gpu]:
    """List the GPUs that can be asked."""
    return [gpu for gpu in list_gpus(load()[0]) if gpu.handle is not None]


def gpu_links() -> tuple[GpuLinks, ...]:
    """Return what connects each GPU; what the driver does not tell stays empty."""
    return tuple(_links_of(gpu) for gpu in reachable_gpus())


def links_up(gpu: Gpu) -> list[int]:
    """List the NVLinks of a GPU that are up, by their numbers."""
    nvml, _ = load()
    return [
        link
        for link in range(nvml.NVML_NVLINK_MAX_LINKS)
        if gpu.ask("NvLinkState", link) == nvml.NVML_FEATURE_ENABLED
    ]


def _links_of(gpu: Gpu) -> GpuLinks:
    nvml, _ = load()
    links = links_up(gpu)
    codes = {gpu.ask("NvLinkVersion", link, default=0) for link in links}
    version = _NVLINK_VERSIONS.get(min(codes, default=0), 0)
    if version and gpu.ask("Architecture") == nvml.NVML_DEVICE_ARCH_HOPPER:
        version = _NVLINK_OF_HOPPER
    return GpuLinks(
        index=gpu.index,
        uuid=as_text(gpu.ask("UUID", default="")),
        name=as_text(gpu.ask("Name", default="")),
        pcie_generation=gpu.ask("MaxPcieLinkGeneration", default=0),
        pcie_lanes=gpu.ask("MaxPcieLinkWidth", default=0),
        nvlink_version=version,
        nvlink_count=len(links),
    )


def bus_of(device: str) -> str:
    """Return the address on the PCI bus of a device, as CUDA_VISIBLE_DEVICES has it; or empty."""
    gpu = _find(device)
    return bus_address(gpu) if gpu is not None else ""


def divided_gpus(devices: Iterable[str]) -> list[int]:
    """List those of the devices, as CUDA_VISIBLE_DEVICES has them, that are whole GPUs with MIG on.

    Of each of them CUDA shows the first instance only; others must be asked for by their UUIDs.
    """
    found = {gpu.index for device in devices if (gpu := _find(device)) and _describe_mig(gpu)}
    return sorted(found)


def _find(device: str) -> Gpu | None:
    for gpu in reachable_gpus() if device else ():
        name = str(gpu.index) if device.isdecimal() else as_text(gpu.ask("UUID", default=""))
        if name == device or (not device.isdecimal() and name.startswith(device)):
            return gpu
    return None


def gpu_addresses() -> dict[int, str]:
    """Return the addresses of all GPUs on the PCI bus, as NVML writes them; of some empty."""
    return {gpu.index: bus_address(gpu) for gpu in reachable_gpus()}


def bus_address(gpu: Gpu) -> str:
    """Return its address on the PCI bus as NVML writes it, or empty."""
    pci = gpu.ask("PciInfo")
    return as_text(pci.busId) if pci is not None else ""


class XidEvents:
    """Critical errors (Xid), which a driver tells to those who listen when they happen.

    Listens from its making on; remembers the last error of each GPU.
    """

    def __init__(self, nvml: Any, gpus: Sequence[Gpu]) -> None:
        self._nvml = nvml
        self._events: Any = None
        self._last: dict[int, tuple[int, float]] = {}
        if gpus:
            self.listen_to(gpus)

    def listen_to(self, gpus: Sequence[Gpu]) -> None:
        """Listen to these from now on; the set of events that was there is gone with its driver."""
        nvml, self._events = self._nvml, None
        with contextlib.suppress(nvml.NVMLError):
            self._events = nvml.nvmlEventSetCreate()
        for gpu in gpus if self._events is not None else ():
            if gpu.handle is not None:
                # Some (GPUs of a hypervisor, for instance) have no events; the others may.
                with contextlib.suppress(nvml.NVMLError):
                    nvml.nvmlDeviceRegisterEvents(
                        gpu.handle, nvml.nvmlEventTypeXidCriticalError, self._events
                    )

    def collect(self, now_s: float) -> None:
        """Take in what has been told since the last time; does not wait."""
        if self._events is None:
            return
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):  # a time-out: there is no more
            for _ in range(_MOST_ERRORS_AT_ONCE):
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                if event.eventType & nvml.nvmlEventTypeXidCriticalError:
                    index = nvml.nvmlDeviceGetIndex(event.device)
                    self._last[index] = (int(event.eventData), now_s)

    def last(self, index: int, now_s: float) -> tuple[int, float]:
        """Return the number of a GPU's last error and its age in seconds; zeros: none."""
        xid, then_s = self._last.get(index, (0, now_s))
        return xid, now_s - then_s


class GpuWatch:
    """Samples every GPU; of one thread only.

    `is_ours` tells of a process whether it belongs to the cluster, `name_of` what it is called.
    """

    def __init__(
        self, is_ours: Callable[[int], bool], name_of: Callable[[int], str] = process_name
    ) -> None:
        self._nvml, _ = load()
        self._is_ours, self._name_of = is_ours, name_of
        self._gpus = list(list_gpus(self._nvml))
        self._events = XidEvents(self._nvml, self._gpus)
        self._reload_s = -math.inf
        self.memory_by_process: dict[int, int] = {}
        """Bytes that each process used on all GPUs together, when they were sampled last."""

    def sample(self, now_s: float) -> tuple[GpuView, ...]:
        """Observe every GPU; what the driver does not tell stays empty."""
        if any(gpu.lost_driver for gpu in self._gpus):
            self._follow_driver(now_s)
        self._events.collect(now_s)
        used: Counter[int] = Counter()
        views = tuple(self._view(gpu, used, now_s) for gpu in self._gpus)
        self.memory_by_process = dict(used)
        return views

    def _follow_driver(self, now_s: float) -> None:
        """Open NVML again after its driver was unloaded, with which all handles are void."""
        if now_s - self._reload_s < RELOAD_INTERVAL_S:
            return
        self._reload_s = now_s
        if load_again(self._nvml) and (gpus := list(list_gpus(self._nvml))):
            self._gpus = gpus
            self._events.listen_to(gpus)

    def _view(self, gpu: Gpu, used: Counter[int], now_s: float) -> GpuView:
        gpu.look_again()
        processes = memory_by_process(gpu)
        used.update(processes)
        memory, rates = gpu.ask("MemoryInfo"), gpu.ask("UtilizationRates")
        slow_reasons = gpu.ask("CurrentClocksEventReasons")
        if slow_reasons is None:  # older drivers use another name
            slow_reasons = gpu.ask("CurrentClocksThrottleReasons", default=0)
        xid, xid_age_s = self._events.last(gpu.index, now_s)
        sampled = {
            "name": as_text(gpu.ask_once("Name", "")),
            "utilisation_percent": float(rates.gpu) if rates else 0.0,
            "memory_used_bytes": int(memory.used) if memory else 0,
            "memory_total_bytes": int(memory.total) if memory else 0,
            "power_w": round(gpu.ask("PowerUsage", default=0) / 1000, 1),
            "power_limit_w": round(gpu.ask("EnforcedPowerLimit", default=0) / 1000, 1),
            "temperature_c": float(gpu.ask("Temperature", _TEMPERATURE_OF_GPU, default=0)),
            "ecc_errors": gpu.ask("TotalEccErrors", _UNCORRECTED, _VOLATILE, default=0),
            "pcie_generation": gpu.ask("CurrPcieLinkGeneration", default=0),
            "pcie_lanes": gpu.ask("CurrPcieLinkWidth", default=0),
            "mig": _describe_mig(gpu),
            "is_throttled": bool(slow_reasons & _THROTTLED),
            "strangers": list_strangers(processes, self._is_ours, self._name_of),
        }
        problem = gpu.problem or gpu.lost_driver
        return GpuView(index=gpu.index, **sampled, xid=xid, xid_age_s=xid_age_s, problem=problem)


_TEMPERATURE_OF_GPU = 0
_UNCORRECTED, _VOLATILE = 1, 0
"""Kind and counter of ECC errors: those since the driver was loaded."""
_MIG_ENABLED = 1


def _describe_mig(gpu: Gpu) -> str:
    current, _pending = gpu.ask("MigMode", default=(0, 0))
    if current != _MIG_ENABLED:
        return ""
    places = range(gpu.ask_once("MaxMigDeviceCount", 0))
    count = sum(gpu.ask("MigDeviceHandleByIndex", place) is not None for place in places)
    return count_of(count, "instance") if count else "on"
