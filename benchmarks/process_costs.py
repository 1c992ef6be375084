"""What a process costs, read from /proc: CPU time, memory, open files. Linux only."""

from pathlib import Path
from typing import NamedTuple

import psutil


class CpuTime(NamedTuple):
    """CPU time so far, in seconds."""

    total_s: float
    main_s: float
    """Of it, that of the main thread."""

    def since(self, before: "CpuTime") -> "CpuTime":
        """Return what was used after an earlier look."""
        return CpuTime(self.total_s - before.total_s, self.main_s - before.main_s)


class Size(NamedTuple):
    """What a process holds."""

    rss_mib: float
    pss_mib: float
    files: int
    threads: int


def cpu_time(pid: int) -> CpuTime:
    """Return the CPU time of the threads that live, in nanoseconds where psutil counts ticks."""
    total_ns = main_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            used_ns = int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
            continue
        total_ns += used_ns
        main_ns += used_ns if task.name == str(pid) else 0
    return CpuTime(total_ns / 1e9, main_ns / 1e9)


def size_of(pid: int) -> Size:
    """Return what a process holds at this moment."""
    process = psutil.Process(pid)
    memory = process.memory_full_info()
    return Size(memory.rss / 2**20, memory.pss / 2**20, process.num_fds(), process.num_threads())
