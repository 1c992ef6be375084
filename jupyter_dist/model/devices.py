"""Which CUDA devices a host has for its ranks, and which one each of them gets.

A device is written as in CUDA_VISIBLE_DEVICES: a number, or how its UUID begins (GPU-…, MIG-…).
"""

from collections.abc import Sequence
from itertools import takewhile

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
AS_NVML = "PCI_BUS_ID"
"""Value of CUDA_DEVICE_ORDER with which a number means the same to CUDA, NVML and nvidia-smi."""
_UUIDS = ("GPU-", "MIG-")


def visible_devices(
    asked: tuple[int, ...], inherited: str | None, gpu_count: int
) -> tuple[str, ...]:
    """List a host's devices: those asked for, else those CUDA_VISIBLE_DEVICES has, else all.

    Where NVML counts no GPU there is none, unless somebody has asked for it by number.
    """
    if asked:
        return tuple(str(device) for device in asked)
    if inherited is None or gpu_count == 0:
        return tuple(str(device) for device in range(gpu_count))

    def is_there(entry: str) -> bool:
        return entry.startswith(_UUIDS) or (entry.isdecimal() and int(entry) < gpu_count)

    # CUDA, too, ignores everything from the first entry on that it does not know.
    entries = takewhile(is_there, (entry.strip() for entry in inherited.split(",")))
    return tuple(dict.fromkeys(entries))


def device_of(local_rank: int, devices: Sequence[str], oversubscribe: bool) -> str:
    """Give the device of one rank of a host; empty when there is none for it."""
    if local_rank < len(devices):
        return devices[local_rank]
    return devices[local_rank % len(devices)] if devices and oversubscribe else ""


def share_out(ranks: int, devices: Sequence[str], oversubscribe: bool) -> tuple[str, ...]:
    """Give the device of each rank of a host; empty when one of them would go without."""
    given = tuple(device_of(local_rank, devices, oversubscribe) for local_rank in range(ranks))
    return given if all(given) else ()


def index_on_host(device: str, uuids: Sequence[str]) -> int | None:
    """Give the number that NVML has for a device; `uuids` are those of the GPUs, in that order."""
    if device.isdecimal():
        return int(device)
    found = [index for index, uuid in enumerate(uuids) if device and uuid.startswith(device)]
    return found[0] if len(found) == 1 else None
