"""The report: a table of medians, the ratios against the goals, and all samples as JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from record import UNITS, Entry, Record

RESULTS = Path(__file__).parent / "results"
OURS = ("ours", "ours-magic")
FLOOR = "bare-zeromq"


@dataclass(frozen=True)
class Goal:
    """At these ranks, ours over the rival's best way shall be at most this."""

    what: str
    ranks: tuple[int, ...]
    rival: str
    most: float
    rival_way: str | None = None
    """A certain way of the rival instead of its best."""


GOALS = (
    Goal("ready", (8,), "ipyparallel", 0.07),
    Goal("ready", (32,), "ipyparallel", 0.2),
    Goal("ready", (4,), "jupyter-distributed", 0.5),
    Goal("engine memory", (2, 32), "ipyparallel", 0.4),
    Goal("engine memory", (8,), "ipyparallel", 0.15),
    Goal("everything's memory", (8,), "ipyparallel", 0.3),
    Goal("empty cell", (2,), "ipyparallel", 0.18),
    Goal("empty cell", (8, 32), "ipyparallel", 0.14),
    Goal("printing cell", (2, 8, 32), "ipyparallel", 0.2),
    Goal("lone empty cell", (2, 8, 32), "ipyparallel", 0.2),
    Goal("lone printing cell", (2, 8, 32), "ipyparallel", 0.2),
    Goal("empty cell", (8,), FLOOR, 1.5, "run_cell"),
    Goal("printing cell", (8,), FLOOR, 2.0, "run_cell"),
    Goal("push 64 MiB", (2,), "ipyparallel", 0.4),
    Goal("push 64 MiB", (8,), "ipyparallel", 0.2),
)


@dataclass(frozen=True)
class Comparison:
    """One of our figures over one of a rival's."""

    ours: Entry
    rival: Entry
    ratio: float
    goal: float | None

    @property
    def verdict(self) -> str:
        """Say whether the goal is met; empty without a goal."""
        if self.goal is None:
            return ""
        return "met" if self.ratio <= self.goal else "MISSED"


def write_report(
    record: Record,
    machine: Mapping[str, Any],
    versions: Mapping[str, Mapping[str, str]],
    leftovers: Mapping[str, int],
) -> bool:
    """Print the tables, write latest.md and latest.json; say whether all our figures were taken.

    A goal that was missed stands in the table; it is a figure, not a failure.
    """
    comparisons = [c for c in compare(record) if c.ours.contender in OURS]
    text = "\n".join(
        [
            "# jupyter-dist against its rivals\n",
            *machine_lines(machine, versions),
            *_median_tables(record),
            *_memory_parts(record),
            *_comparison_table(comparisons),
            *_missing_lines(record, leftovers),
        ]
    )
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.md").write_text(text + "\n")
    everything = {
        "machine": machine,
        "versions": versions,
        "measurements": [_as_json(entry, values) for entry, values in record.samples.items()],
        "memory_parts_mib": record.parts,
        "comparisons": [
            {
                "what": c.ours.what,
                "ranks": c.ours.ranks,
                "ours": c.ours.label,
                "rival": c.rival.label,
                "ratio": c.ratio,
                "goal": c.goal,
                "verdict": c.verdict,
            }
            for c in comparisons
        ],
        "missing": [
            {"what": e.what, "ranks": e.ranks, "contender": e.label, "reason": reason}
            for e, reason in record.missing.items()
        ],
        "processes_left_after_stop": leftovers,
    }
    (RESULTS / "latest.json").write_text(json.dumps(everything, indent=1) + "\n")
    return not any(entry.contender in OURS for entry in record.missing)


def compare(record: Record) -> Iterator[Comparison]:
    """Set each of our figures against each rival's best at the same number of ranks."""
    for what in UNITS:
        for ours in sorted(record.entries(what)):
            mine = record.median(ours)
            if ours.kind not in OURS or mine is None:
                continue
            for rival in _rivals(record, ours):
                theirs = record.median(rival)
                if theirs:
                    yield Comparison(ours, rival, mine / theirs, _goal_for(ours, rival))


def _rivals(record: Record, ours: Entry) -> Iterator[Entry]:
    """Find each rival's best way; of the floor, that which runs the cell as IPython does.

    Other releases of ours are rivals too, each in the same way.
    """
    for contender in sorted({entry.contender for entry in record.entries(ours.what)}):
        other = replace(ours, contender=contender)
        if other.kind in OURS:
            if other.kind == ours.kind and other != ours:
                yield other
            continue
        if contender == FLOOR:
            if "cell" in ours.what:
                yield Entry(ours.what, ours.ranks, contender, "run_cell")
        elif best := record.best(ours.what, ours.ranks, contender):
            yield best[0]


def _goal_for(ours: Entry, rival: Entry) -> float | None:
    for goal in GOALS:
        is_same = (goal.what, goal.rival) == (ours.what, rival.contender)
        if is_same and ours.ranks in goal.ranks and goal.rival_way in (None, rival.way):
            return goal.most
    return None


def machine_lines(
    machine: Mapping[str, Any], versions: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Tell on what the figures were taken, and of whom."""
    for name, value in machine.items():
        yield f"- {name}: {value}"
    for contender, packages in versions.items():
        told = ", ".join(f"{name} {number}" for name, number in packages.items())
        yield f"- {contender}: {told}"


def _median_tables(record: Record) -> Iterator[str]:
    for what, unit in UNITS.items():
        entries = list(record.entries(what))
        if not entries:
            continue
        ranks = sorted({entry.ranks for entry in entries})
        yield f"\n## {what}: median (least to most), {unit}\n"
        yield row(["", *(f"{n} ranks" for n in ranks)])
        yield row(["---"] + ["---:"] * len(ranks))
        found = {replace(entry, ranks=0) for entry in entries if _has_figures(record, entry)}
        for entry in sorted(found, key=lambda entry: (entry.kind not in OURS, entry)):
            yield row([entry.label, *(_cell(record, replace(entry, ranks=n)) for n in ranks)])


def _memory_parts(record: Record) -> Iterator[str]:
    if record.parts:
        yield "\n## memory by part, sums over the processes of a part, MiB\n"
    for label, parts in sorted(record.parts.items()):
        told = ", ".join(f"{part} {short(mib)}" for part, mib in parts.items())
        yield f"- {label} ranks: {told}"


def _has_figures(record: Record, entry: Entry) -> bool:
    return any(
        (entry.what, entry.contender, entry.way) == (other.what, other.contender, other.way)
        for other in record.samples
    )


def _comparison_table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if not comparisons:
        return
    yield "\n## ours over a rival's best way\n"
    yield row(["what", "ranks", "ours", "over", "ratio", "goal", ""])
    yield row(["---", "---:", "---", "---", "---:", "---:", "---"])
    for c in comparisons:
        goal = "" if c.goal is None else f"≤ {c.goal:g}"
        figures = [c.ours.label, c.rival.label, f"{c.ratio:.2f}", goal, c.verdict]
        yield row([c.ours.what, c.ours.ranks, *figures])


def _missing_lines(record: Record, leftovers: Mapping[str, int]) -> Iterator[str]:
    if record.missing or leftovers:
        yield "\n## what is missing, and why\n"
    for entry, reason in record.missing.items():
        yield f"- {entry.what}, {entry.ranks} ranks, {entry.label}: {reason}"
    for names, count in leftovers.items():
        yield f"- {count} processes were left after the stop of {names}; the benchmark ended them"


def _cell(record: Record, entry: Entry) -> str:
    median = record.median(entry)
    if median is None:
        return ""
    values = record.samples[entry]
    spread = f" ({short(min(values))} to {short(max(values))})" if len(values) > 1 else ""
    return short(median) + spread


def short(value: float) -> str:
    """Write a figure as long as it is worth."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def row(cells: Iterable[object]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def _as_json(entry: Entry, values: Sequence[float]) -> dict[str, Any]:
    return {
        "what": entry.what,
        "ranks": entry.ranks,
        "contender": entry.contender,
        "way": entry.way,
        "unit": UNITS[entry.what],
        "samples": [round(value, 4) for value in values],
    }
