"""Processes on a GPU that are none of ours."""

import contextlib
from collections.abc import Callable

import psutil

from jupyter_dist.model.topology import GpuProcess
from jupyter_dist.probe.nvml import Gpu

_MOST_SHOWN = 8


def list_strangers(
    gpu: Gpu, is_ours: Callable[[int], bool], name_of: Callable[[int], str]
) -> tuple[GpuProcess, ...]:
    """List those with the most memory first, at most eight.

    A process that this one cannot see (of another container, or another user's where /proc is
    closed) has no name and is left out: NVML may count it as its host does, and then it may be
    one of ours.
    """
    memory: dict[int, int] = {}
    for question in ("ComputeRunningProcesses", "GraphicsRunningProcesses"):
        for process in gpu.ask(question, default=()):
            memory[process.pid] = max(memory.get(process.pid, 0), process.usedGpuMemory or 0)
    found = [
        GpuProcess(pid=pid, name=name, memory_bytes=used)
        for pid, used in memory.items()
        if (name := name_of(pid)) and not is_ours(pid)
    ]
    found.sort(key=lambda process: (-process.memory_bytes, process.pid))
    return tuple(found[:_MOST_SHOWN])


def process_name(pid: int) -> str:
    """Give the name of a process; empty where it cannot be seen."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).name()
    return ""


def descends_from(ancestor: int) -> Callable[[int], bool]:
    """Give a function that tells of a process whether it, or a parent of it, is this one."""

    def is_ours(pid: int) -> bool:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            return ancestor in (pid, *(parent.pid for parent in process.parents()))
        return False

    return is_ours
