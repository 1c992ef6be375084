"""What every contender can do: one small face, so that all are measured by the same lines."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import psutil

START_TIMEOUT_S = 120.0
CELL_TIMEOUT_S = 30.0
MARKER = "of the output"
"""Stands in every line that the printing cell prints, so that lost lines are noticed."""


class NotOfferedError(Exception):
    """The contender has no way to do what is measured; the text says why."""


@dataclass
class Memory:
    """Proportional set sizes, by the part that a process plays."""

    engines: int
    parts_bytes: dict[str, int] = field(default_factory=dict)
    """Sum over all processes of a part: `engine`, and what else the contender has."""
    per_engine_parts: tuple[str, ...] = ("engine",)
    """The parts of which there is one for each engine; the others serve all."""

    @property
    def engine_bytes(self) -> float:
        """One engine with the helpers that only it has."""
        return sum(self.parts_bytes.get(p, 0) for p in self.per_engine_parts) / self.engines

    @property
    def all_bytes(self) -> float:
        """Everything that was started, divided by the number of engines."""
        return sum(self.parts_bytes.values()) / self.engines


class Contender(ABC):
    """A way to run a cell on N local processes; created once in a worker process of its own."""

    packages: ClassVar[tuple[str, ...]] = ()
    """Distributions whose versions belong into the report."""
    run_ways: ClassVar[tuple[str, ...]] = ()
    """The names under which this contender offers to run a cell."""
    push_ways: ClassVar[tuple[str, ...]] = ()
    """The names under which it offers to push an array; empty when it cannot."""
    pull_ways: ClassVar[tuple[str, ...]] = ()
    """The same, to pull one from each engine."""
    collapses_output: ClassVar[tuple[str, ...]] = ()
    """The ways that show equal lines of several ranks once."""

    @abstractmethod
    def start(self, n: int) -> float:
        """Start n engines; return the seconds until a no-op cell has run on all of them."""

    @abstractmethod
    def run(self, code: str, way: str) -> str:
        """Run a cell on all engines, wait for its end, return all that it printed.

        Raises when a rank raised.
        """

    def push(self, array: Any, way: str) -> None:  # noqa: ARG002
        """Put the array into every engine's namespace as `pushed`, wait until it is there."""
        raise NotOfferedError(f"{type(self).__name__} has no push")

    def pull(self, way: str) -> list[Any]:  # noqa: ARG002
        """Return what every engine has under the name `pulled`."""
        raise NotOfferedError(f"{type(self).__name__} has no pull")

    @abstractmethod
    def memory(self) -> Memory:
        """Add up what the processes of the running cluster hold."""

    @abstractmethod
    def stop(self) -> None:
        """End the engines and all their helpers; harmless when nothing runs."""

    def versions(self) -> dict[str, str]:
        """Name the installed version of each package in `packages`."""
        return {name: _version(name) for name in self.packages}


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    """Add up the proportional set sizes of processes; one that has just ended counts 0."""
    return sum(_pss_bytes(process.pid) for process in processes)


def command_line(process: psutil.Process) -> str:
    """Give the command line as one string; empty when the process has just ended."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def descendants() -> list[psutil.Process]:
    """List the living processes below this one."""
    return psutil.Process().children(recursive=True)


def _pss_bytes(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
