"""Limits of control groups, and how often the kernel's OOM killer struck in them."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from jupyter_dist.probe.pci import read_number, read_text

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 writes the largest number of pages that fits."""


class TasksLeft(NamedTuple):
    """How many more processes and threads may begin, and by whose limit."""

    left: int
    limit: int
    folder: Path


class Cgroup(msgspec.Struct, frozen=True):
    """The group in which a process's memory is counted."""

    folder: Path
    mount: Path
    """Where the hierarchy begins."""
    is_v2: bool

    @property
    def oom_kills(self) -> int | None:
        """Processes in it that the kernel has killed for memory so far; None where untold."""
        counts = self.folder / ("memory.events" if self.is_v2 else "memory.oom_control")
        return _count(counts, "oom_kill")

    @property
    def is_first(self) -> bool:
        """It is where the hierarchy begins."""
        return self.folder == self.mount

    @property
    def limit_bytes(self) -> int:
        """What its processes may use together, by its own limit and those above it; 0: no limit."""
        name = "memory.max" if self.is_v2 else "memory.limit_in_bytes"
        limits = [read_number(folder / name) for folder in self._lineage()]  # 0 for `max`
        return min((limit for limit in limits if 0 < limit < _NO_LIMIT), default=0)

    @property
    def tasks_left(self) -> TasksLeft | None:
        """Room for processes and threads, by its own limit and those above it.

        None: there is no limit, or version 1 has it, in a hierarchy of its own.
        """
        found = [
            TasksLeft(max(0, limit - read_number(folder / "pids.current")), limit, folder)
            for folder in self._lineage()
            if (limit := read_number(folder / "pids.max"))  # 0 for `max`
        ]
        return min(found, default=None)

    def _lineage(self) -> Iterator[Path]:
        yield self.folder
        for folder in self.folder.parents:
            if not folder.is_relative_to(self.mount):
                return
            yield folder


def cgroup_of(pid: int, *, proc: Path = PROC, groups: Path = GROUPS) -> Cgroup | None:
    """Find the group of a process; None where the system has none, or it has ended."""
    try:
        with open(f"{proc}/{pid}/cgroup", "rb") as file:
            places = _places(file.read(), groups)
    except OSError:
        return None
    return next((group for group in places if os.path.isdir(group.folder)), None)


@lru_cache(maxsize=64)
def _places(told: bytes, groups: Path) -> tuple[Cgroup, ...]:
    """Return where the group may be of which the kernel tells: it tells most processes the same."""
    lines = told.decode(errors="surrogateescape").splitlines()
    for line in lines:
        _number_of_it, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _own_or_first(groups / "memory", path, is_v2=False)
    unified = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), None)
    return () if unified is None else _own_or_first(groups, unified, is_v2=True)


def _own_or_first(mount: Path, path: str, *, is_v2: bool) -> tuple[Cgroup, ...]:
    # In a container its own group may be mounted as if it were the first one.
    return Cgroup(mount / path.lstrip("/"), mount, is_v2), Cgroup(mount, mount, is_v2)


def count_oom_kills(proc: Path = PROC) -> int:
    """Count the processes of this machine that the kernel has killed for memory since it began."""
    return _count(proc / "vmstat", "oom_kill") or 0


def _count(file: Path, name: str) -> int | None:
    lines = read_text(file).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)
