"""Processes on GPUs: what each of them uses, and which are none of ours."""

import contextlib
from collections.abc import Callable, Mapping

import psutil

from jupyter_dist.model.hosts.topology import GpuProcess
from jupyter_dist.probe.nvml import Gpu

_MOST_SHOWN = 8


def memory_by_process(gpu: Gpu) -> dict[int, int]:
    """Return the bytes that each process uses on a GPU; 0 where the driver does not tell."""
    memory: dict[int, int] = {}
    for question in ("ComputeRunningProcesses", "GraphicsRunningProcesses"):
        for process in gpu.ask(question, default=()):
            memory[process.pid] = max(memory.get(process.pid, 0), process.usedGpuMemory or 0)
    return memory


def list_strangers(
    memory: Mapping[int, int], is_ours: Callable[[int], bool], name_of: Callable[[int], str]
) -> tuple[GpuProcess, ...]:
    """List those with the most memory first, at most eight.

    A process that this one cannot see (of another container, or another user's where /proc is
    closed) has no name and is left out: NVML may count it as its host does, and then it may be
    one of ours.
    """
    found = [
        GpuProcess(pid=pid, name=name, memory_bytes=used)
        for pid, used in memory.items()
        if (name := name_of(pid)) and not is_ours(pid)
    ]
    found.sort(key=lambda process: (-process.memory_bytes, process.pid))
    return tuple(found[:_MOST_SHOWN])


def process_name(pid: int) -> str:
    """Return the name of a process as text that can be sent; empty where it cannot be seen."""
    with contextlib.suppress(psutil.Error):
        # The kernel cuts names at 15 bytes, which may be in the middle of a letter.
        return psutil.Process(pid).name().encode("utf-8", "replace").decode()
    return ""


def descends_from(ancestor: int) -> Callable[[int], bool]:
    """Return a function that tells of a process whether it, or a parent of it, is this one."""

    def is_ours(pid: int) -> bool:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            return ancestor in (pid, *(parent.pid for parent in process.parents()))
        return False

    return is_ours
