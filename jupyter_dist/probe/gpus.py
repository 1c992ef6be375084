"""The GPUs of this machine through NVML; a machine without NVML has no GPU."""

import contextlib
from functools import cache
from typing import Any

from jupyter_dist.model.topology import GpuView


@cache
def _nvml() -> Any:
    """Give the initialised NVML module, or None."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def count_gpus() -> int:
    """Count the GPUs of this machine."""
    nvml = _nvml()
    return int(nvml.nvmlDeviceGetCount()) if nvml is not None else 0


def sample_gpus() -> tuple[GpuView, ...]:
    """Observe every GPU; those that cannot be asked are left out."""
    nvml = _nvml()
    if nvml is None:
        return ()
    views = []
    for index in range(nvml.nvmlDeviceGetCount()):
        with contextlib.suppress(nvml.NVMLError):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            name = nvml.nvmlDeviceGetName(handle)
            views.append(
                GpuView(
                    index=index,
                    name=name.decode() if isinstance(name, bytes) else str(name),
                    utilisation_percent=float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                    memory_used_bytes=int(memory.used),
                    memory_total_bytes=int(memory.total),
                )
            )
    return tuple(views)
