"""The GPUs of this machine through NVML; a machine without NVML has no GPU."""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jupyter_dist.model.topology import GpuLinks, GpuView

_CONTROL = Path("/dev/nvidiactl")
"""There where the driver's devices can be used: also in a container that was given them."""
_NVLINK_VERSIONS = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5}
"""By NVML's codes, which count 2.2 and 3.1 as well."""
_NVLINK_OF_HOPPER = 4
"""What it has; some drivers say 5."""


@cache
def _load() -> tuple[Any, str]:
    """Give the initialised NVML module, or None and the reason."""
    try:
        import pynvml
    except ImportError:
        return None, "the package nvidia-ml-py, which counts them, is missing"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        return None, f"NVML: {problem}"
    return pynvml, ""


def _handles(nvml: Any) -> Iterator[tuple[int, Any]]:
    """Give each GPU that can be asked, by its number."""
    for index in range(nvml.nvmlDeviceGetCount()):
        with contextlib.suppress(nvml.NVMLError):
            yield index, nvml.nvmlDeviceGetHandleByIndex(index)


def count_gpus() -> int:
    """Count the GPUs of this machine."""
    nvml, _ = _load()
    return int(nvml.nvmlDeviceGetCount()) if nvml is not None else 0


def gpu_problem() -> str:
    """Say why GPUs cannot be asked where their driver is there; else empty."""
    _, problem = _load()
    return problem if _CONTROL.exists() else ""


def sample_gpus() -> tuple[GpuView, ...]:
    """Observe every GPU; those that cannot be asked are left out."""
    nvml, _ = _load()
    if nvml is None:
        return ()
    views = []
    for index, handle in _handles(nvml):
        with contextlib.suppress(nvml.NVMLError):
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            views.append(
                GpuView(
                    index=index,
                    name=_text(nvml.nvmlDeviceGetName(handle)),
                    utilisation_percent=float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                    memory_used_bytes=int(memory.used),
                    memory_total_bytes=int(memory.total),
                )
            )
    return tuple(views)


def gpu_links() -> tuple[GpuLinks, ...]:
    """Say what connects each GPU; what the driver does not tell stays empty."""
    nvml, _ = _load()
    return () if nvml is None else tuple(_links_of(nvml, *each) for each in _handles(nvml))


def _links_of(nvml: Any, index: int, handle: Any) -> GpuLinks:
    def ask(question: Callable[..., Any], *more: object, default: Any) -> Any:
        with contextlib.suppress(nvml.NVMLError):
            return question(handle, *more)
        return default

    links = [
        link
        for link in range(nvml.NVML_NVLINK_MAX_LINKS)
        if ask(nvml.nvmlDeviceGetNvLinkState, link, default=0) == nvml.NVML_FEATURE_ENABLED
    ]
    codes = {ask(nvml.nvmlDeviceGetNvLinkVersion, link, default=0) for link in links}
    version = _NVLINK_VERSIONS.get(min(codes, default=0), 0)
    architecture = ask(nvml.nvmlDeviceGetArchitecture, default=None)
    if version and architecture == nvml.NVML_DEVICE_ARCH_HOPPER:
        version = _NVLINK_OF_HOPPER
    return GpuLinks(
        index=index,
        uuid=_text(ask(nvml.nvmlDeviceGetUUID, default="")),
        name=_text(ask(nvml.nvmlDeviceGetName, default="")),
        pcie_generation=ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration, default=0),
        pcie_lanes=ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, default=0),
        nvlink_version=version,
        nvlink_count=len(links),
    )


def bus_of(device: str) -> str:
    """Give the address on the PCI bus of a device, as CUDA_VISIBLE_DEVICES has it; or empty."""
    nvml, _ = _load()
    if nvml is None or not device:
        return ""
    for index, handle in _handles(nvml):
        with contextlib.suppress(nvml.NVMLError):
            name = str(index) if device.isdecimal() else _text(nvml.nvmlDeviceGetUUID(handle))
            if name == device or (not device.isdecimal() and name.startswith(device)):
                return _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
    return ""


def _text(answer: str | bytes) -> str:
    """Read a text as releases of NVML's module give it."""
    return answer.decode() if isinstance(answer, bytes) else answer
