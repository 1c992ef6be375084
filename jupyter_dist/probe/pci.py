"""Where devices of this machine stand on PCI Express, by the paths below /sys."""

import re
from pathlib import Path
from typing import NamedTuple, Self

SYS = Path("/sys")
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Nearest first: one PCIe switch, several, a host bridge, within a NUMA node, between nodes."""
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_ONE_SWITCH = 2
"""Steps down from the port that two devices share: a port of the switch, and the device."""


class PciPlace(NamedTuple):
    """Where one device stands."""

    path: tuple[str, ...]
    """From the root complex down to the device; empty: not on PCI."""
    numa_node: int = -1
    """-1: unknown, or there is one only."""

    @classmethod
    def of(cls, device: Path) -> Self:
        """Find the place of what this path, or link, of /sys leads to."""
        parts = device.resolve().parts
        path = tuple(part for part in parts if _ROOT.fullmatch(part) or _ADDRESS.fullmatch(part))
        return cls(path, read_number(device / "numa_node", default=-1))

    def distance_to(self, other: "PciPlace") -> str:
        """Name the way between two devices, one of DISTANCES as nvidia-smi does; empty: unknown."""
        if not self.path or not other.path:
            return ""
        shared = 0
        for one, another in zip(self.path, other.path, strict=False):
            if one != another:
                break
            shared += 1
        if shared > 1:
            steps = max(len(self.path), len(other.path)) - shared
            return "PIX" if steps <= _ONE_SWITCH else "PXB"
        if shared == 1:
            return "PHB"
        if min(self.numa_node, other.numa_node) < 0:
            return ""
        return "NODE" if self.numa_node == other.numa_node else "SYS"


def device_address(bus: str) -> str:
    """Write an address on the bus as /sys has it: NVML gives the domain eight digits."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:] if len(domain) == 8 and domain.startswith('0000') else domain}:{rest}"


def read_text(path: Path) -> str:
    """Read a small file of /sys; empty where it is not there, or its driver does not answer."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def read_number(path: Path, default: int = 0) -> int:
    """Read a whole number, where there is one."""
    text = read_text(path)
    return int(text) if text.removeprefix("-").isdecimal() else default
