"""Figures by size: kept in results/scale.json, drawn in results/ and docs/explanation/scale.md."""

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from report import row as line_of
from report import short

Row = dict[str, Any]
"""What was measured of one size: figures by names that end in their units, and how it was taken."""
Kept = dict[str, dict[str, Row]]
"""The last row of each size, by kind (simulated, real) and by size."""

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "scale.json"
TABLES = RESULTS.with_suffix(".md")
PAGE = ROOT / "docs" / "explanation" / "scale.md"
BLOCK = re.compile(r"(<!-- scale: (\w+) -->\n).*?(<!-- /scale -->)", re.DOTALL)
CELLS = {
    "start_s": "start, s",
    "start_cpu_s": "its CPU, s",
    "cell_ms": "empty cell, ms",
    "cell_cpu_ms": "its CPU, ms",
    "cell_main_cpu_ms": "of it main thread",
    "cell_client_cpu_ms": "client's CPU, ms",
    "line_cell_ms": "cell with a line, ms",
    "line_cell_cpu_ms": "its CPU, ms",
}
REST = {
    "idle_percent": "idle, % of a core",
    "late_host_percent": "while a cell waits, %",
    "rss_mib": "RSS, MiB",
    "files": "files",
    "threads": "threads",
    "death_told_ms": "death told, ms",
    "death_over_ms": "cell over, ms",
    "heal_s": "replaced, s",
    "silent_host_told_s": "silent host told, s",
    "silent_host_over_s": "cell over, s",
    "stop_s": "stop, s",
}
REAL = {
    "start_s": "start, s",
    "cell_ms": "empty cell, ms",
    "barrier_ms": "barrier, ms",
    "interrupt_ms": "first interrupt, ms",
    "not_interrupted": "ranks that did not heed it",
    "stop_s": "stop, s",
}
LEAST_RANKS, MOST_RANKS = 64, 4096
"""Slopes are taken from here to there: below, what does not grow is most of a figure, and above the
processes that play the hosts keep the coordinator from its cores.
"""
GOALS: dict[tuple[str, int], dict[str, float]] = {
    ("real", 256): {"start_s": 3.5, "cell_ms": 80, "barrier_ms": 60, "interrupt_ms": 2500},
    ("real", 512): {"start_s": 8},
    ("simulated", 1024): {"start_s": 2.5, "cell_ms": 40, "idle_percent": 3},
    ("simulated", 4096): {"start_s": 10, "cell_ms": 250, "idle_percent": 6, "rss_mib": 250},
    ("simulated", 16384): {"cell_ms": 1500, "death_told_ms": 1000, "silent_host_told_s": 12},
}
"""At most, on two cores that the simulated hosts share, by kind and ranks."""
BEFORE_COMMIT = "38dc8e7"
BEFORE = {"start_s": 4.7, "cell_ms": 141, "barrier_ms": 3597, "interrupt_ms": 14_100}
"""What 256 real ranks of that commit took where their goals were set: on another machine, or in
another hour, the same share of what that commit takes there is as much."""
SLOPE_GOAL = 1.0
"""Of the coordinator's CPU time for an empty cell."""
CORES = (1, 2, 4)
CELL_MS, IDLE_PERCENT = 250, 10
"""What a coordinator of so many cores may take: for an empty cell, and of its cores while idle."""


def describe(row: Row) -> Iterator[str]:
    """Yield a line for each figure of a row as it was taken, and for what went wrong."""
    titles = {**CELLS, **REST, **REAL}
    for name, figure in row.items():
        if name in titles:
            yield f"{titles[name]}: {short(figure)}"
    if "problem" in row:
        yield row["problem"]


def keep(measured: Iterable[tuple[str, Row]], machine: Mapping[str, Any]) -> None:
    """Put rows in the place of those of the same sizes; each says on what it was taken."""
    kept = read_kept()
    where = ", ".join(f"{machine[name]}" for name in ("cpu", "cores", "memory", "python"))
    for kind, row in measured:
        sizes = kept.setdefault(kind, {})
        sizes[f"{row['hosts']}x{row['ranks'] // row['hosts']}"] = row | {"machine": where}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def read_kept() -> Kept:
    """Return what was measured; nothing at first."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def write_pages() -> None:
    """Draw what is kept into the pages that show it."""
    kept = read_kept()
    TABLES.write_text(f"# Scale\n\n{draw('all', kept)}")
    PAGE.write_text(renewed(PAGE.read_text(), kept))


def renewed(text: str, kept: Kept) -> str:
    """Return a page with today's figures between its marks."""
    return BLOCK.sub(lambda block: block[1] + draw(block[2], kept) + block[3], text)


def draw(what: str, kept: Kept) -> str:
    """Return a table: cells, rest, real, goals, capacity, taken; or all of them."""
    simulated, real = (_by_ranks(kept.get(kind, {})) for kind in ("simulated", "real"))
    tables: dict[str, Callable[[], list[str]]] = {
        "cells": lambda: _table(simulated, CELLS),
        "rest": lambda: _table(simulated, REST),
        "real": lambda: _table(real, REAL),
        "goals": lambda: _goals({"simulated": simulated, "real": real}),
        "capacity": lambda: _capacity(simulated),
        "taken": lambda: _taken([*simulated, *real]),
    }
    chosen = tables if what == "all" else [what]
    return "\n".join("\n".join([*tables[name](), ""]) for name in chosen)


def slope(rows: Sequence[Row], name: str) -> float | None:
    """Return how a figure grows with ranks, both axes logarithmic; None from fewer than two."""
    points = [
        (math.log(row["ranks"]), math.log(row[name]))
        for row in rows
        if LEAST_RANKS <= row["ranks"] <= MOST_RANKS and row.get(name, 0) > 0
    ]
    if len({ranks for ranks, _ in points}) < 2:
        return None
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def _by_ranks(rows: Mapping[str, Row]) -> list[Row]:
    return sorted(rows.values(), key=lambda row: (row["ranks"], row["hosts"]))


def _table(rows: Sequence[Row], figures: Mapping[str, str]) -> list[str]:
    """Draw a line for each size, and the slope of each figure."""
    lines = [
        line_of(["ranks", "hosts", *figures.values()]),
        line_of(["---:"] * (len(figures) + 2)),
    ]
    for row in rows:
        found = [short(row[name]) if name in row else "" for name in figures]
        lines.append(line_of([row["ranks"], row["hosts"], *found]))
    slopes = [slope(rows, name) for name in figures]
    lines.append(line_of(["slope", "", *("" if s is None else f"{s:.2f}" for s in slopes)]))
    problems = [f"{row['ranks']} ranks: {row['problem']}" for row in rows if "problem" in row]
    return [*lines, *(f"\n{problem}" for problem in problems)]


def _goals(rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """Draw each goal beside what was found."""
    titles = {**CELLS, **REST, **REAL}
    lines = [
        line_of(["figure", "goal, at most", "found", "verdict"]),
        line_of(["---", "---:", "---:", "---"]),
    ]
    for (kind, ranks), goals in GOALS.items():
        row = next((row for row in rows[kind] if row["ranks"] == ranks), {})
        for name, goal in goals.items():
            what = f"{ranks} {kind} ranks: {titles[name]}"
            lines.append(_goal(what, goal, row.get(name)))
    for row in rows["real"]:
        lines += _shares_of_before(row)
    what = f"slope of an empty cell's CPU, from {LEAST_RANKS} to {MOST_RANKS} ranks"
    lines.append(_goal(what, SLOPE_GOAL, slope(rows["simulated"], "cell_cpu_ms")))
    return lines


def _shares_of_before(row: Row) -> Iterator[str]:
    """Yield a line for each goal as a share of what an earlier commit took in the same run."""
    before, goals = row.get("before", {"commit": ""}), GOALS.get(("real", row["ranks"]), {})
    for name, then in BEFORE.items() if before["commit"] == BEFORE_COMMIT else ():
        if name in goals and name in before and name in row:
            title = REAL[name].partition(",")[0]
            what = f"{row['ranks']} real ranks: {title} over commit {before['commit']}"
            taken = f"{short(row[name])} / {short(before[name])}, in turn {row['rounds']} times"
            yield _goal(f"{what} ({taken})", goals[name] / then, row[name] / before[name])


def _goal(what: str, goal: float, found: float | None) -> str:
    if found is None:
        return line_of([what, f"{goal:g}", "not measured", ""])
    return line_of([what, f"{goal:.4g}", short(found), "met" if found <= goal else "missed"])


def _capacity(rows: Sequence[Row]) -> list[str]:
    """Draw what a rank costs the coordinator, by the largest size of which everything is known.

    And how many ranks some cores hold, if each goes on costing as much as there.
    """
    known = [row for row in rows if {"rss_mib", "cell_cpu_ms", "idle_percent"} <= row.keys()]
    if not known:
        return ["Not measured yet."]
    least, most = known[0], known[-1]
    ranks = most["ranks"]
    more = max(1, ranks - least["ranks"])
    rss_kib = 1024 * (most["rss_mib"] - least["rss_mib"]) / more
    cell_us, main_us = (1e3 * most[name] / ranks for name in ("cell_cpu_ms", "cell_main_cpu_ms"))
    idle_us = 1e4 * most["idle_percent"] / ranks
    costs = {
        "CPU for an empty cell": f"{cell_us:.0f} µs",
        "of it on the main thread": f"{main_us:.0f} µs",
        "CPU while idle": f"{idle_us:.0f} µs/s",
        "memory (RSS), above the smallest size": f"{rss_kib:.0f} KiB",
        "CPU for the start": f"{1e6 * most['start_cpu_s'] / ranks:.0f} µs",
    }
    lines = [line_of([f"at {ranks} ranks on {most['hosts']} hosts", "for a rank"])]
    lines += [line_of(["---", "---:"]), *map(line_of, costs.items())]
    heads = ("cores", f"ranks with an empty cell in {CELL_MS} ms", f"idle at {IDLE_PERCENT} %")
    lines += ["", line_of(heads), line_of(["---:"] * len(heads))]
    for cores in CORES:
        busiest_us = max(main_us, cell_us / cores)  # the main thread is one
        idle = 1e4 * IDLE_PERCENT * cores / idle_us
        lines.append(line_of([cores, f"{1e3 * CELL_MS / busiest_us:.0f}", f"{idle:.0f}"]))
    return lines


def _taken(rows: Sequence[Row]) -> list[str]:
    """Draw when and on what each size was measured."""
    heads = ["ranks", "hosts", "date", "commit", "load before", "machine", "versions"]
    lines = [line_of(heads), line_of(["---:", "---:", "---", "---", "---:", "---", "---"])]
    for row in rows:
        versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
        facts = (row[name] for name in ("ranks", "hosts", "date", "commit", "load", "machine"))
        lines.append(line_of([*facts, versions]))
    return lines
