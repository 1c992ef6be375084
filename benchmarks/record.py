"""What was measured: samples by what, ranks, contender and way; and why something is missing."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

UNITS = {
    "ready": "s",
    "engine memory": "MiB",
    "everything's memory": "MiB",
    "empty cell": "ms",
    "printing cell": "ms",
    "lone empty cell": "ms",
    "lone printing cell": "ms",
    "push 1 MiB": "ms",
    "push 64 MiB": "ms",
    "pull 64 MiB": "ms",
    "idle CPU": "% of a core",
    "idle CPU of the coordinator": "% of a core",
    "idle CPU of the agent": "% of a core",
}


@dataclass(frozen=True, order=True)
class Entry:
    """One row and column of the table."""

    what: str
    ranks: int
    contender: str
    way: str = ""

    @property
    def kind(self) -> str:
        """The contender; of an earlier release of ours (`ours@8dbd89c`) what it is now."""
        return self.contender.partition("@")[0]

    @property
    def label(self) -> str:
        """The contender, and how it was used."""
        return f"{self.contender} {self.way}".strip()


@dataclass
class Record:
    """All samples of a run, in the units of UNITS."""

    samples: dict[Entry, list[float]] = field(default_factory=dict)
    missing: dict[Entry, str] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Memory in MiB by `contender at N ranks` and the part that a process plays."""

    def add(self, entry: Entry, value: float) -> None:
        """Take in one sample."""
        self.samples.setdefault(entry, []).append(value)

    def miss(self, entry: Entry, reason: str) -> None:
        """Remember why there is no (further) sample."""
        self.missing.setdefault(entry, reason)

    def median(self, entry: Entry) -> float | None:
        """Give the median of the samples, or None without any."""
        values = self.samples.get(entry)
        return statistics.median(values) if values else None

    def best(self, what: str, ranks: int, contender: str) -> tuple[Entry, float] | None:
        """Find the way in which this contender is fastest (or smallest)."""
        found = [
            (statistics.median(values), entry)
            for entry, values in self.samples.items()
            if (entry.what, entry.ranks, entry.contender) == (what, ranks, contender)
        ]
        if not found:
            return None
        value, entry = min(found)
        return entry, value

    def entries(self, what: str) -> Iterator[Entry]:
        """List what was tried for this measurement, with or without success."""
        seen = {**self.samples, **self.missing}
        return (entry for entry in seen if entry.what == what)
