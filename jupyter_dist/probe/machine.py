"""How busy this machine is, and how many NUMA nodes it has."""

from pathlib import Path
from typing import NamedTuple

import psutil

from jupyter_dist.probe.pci import SYS, read_text


class Load(NamedTuple):
    """Of the whole machine, whoever causes it."""

    cpu_percent: float
    """Of all cores, since the last time this process asked."""
    memory_used_bytes: int


def sample_load() -> Load:
    """Observe cores and memory; the first answer of a process says nothing about its cores."""
    memory = psutil.virtual_memory()
    return Load(psutil.cpu_percent(), memory.total - memory.available)


def count_numa_nodes(root: Path = SYS) -> int:
    """Count NUMA nodes that have cores (memory of a GPU may be one without); 0: unknown."""
    text = read_text(root / "devices" / "system" / "node" / "has_cpu")
    spans = [part.partition("-") for part in text.split(",")] if text else []  # as 0-3,5
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)
