"""What the smaller benchmarks share: options, turns, medians, tables, and figures as JSON."""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Samples = dict[str, list[float]]
"""What was measured of each way, by its name."""


def read_options(doc: str | None, **defaults: float | str | bool) -> argparse.Namespace:
    """Read the command line: options of these names, of the types of their defaults, and --json."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(default), default=default)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def take_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> Samples:
    """Measure every way once in each round; the first round connects, and fills the caches."""
    samples: Samples = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            taken = way()
            if number:
                samples[name].append(taken)
    return samples


def medians_of(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median of each way's samples."""
    return {name: statistics.median(found) for name, found in samples.items()}


def summarise(samples: Samples, above: str = "") -> dict[str, dict[str, float]]:
    """Return median and quickest of each way's microseconds, and what is above those of one way."""
    table = {}
    for name, median in medians_of(samples).items():
        table[name] = {"median_us": median, "quickest_us": min(samples[name])}
        if above:
            table[name][f"above_{above}_us"] = median - statistics.median(samples[above])
    return table


def publish(
    options: argparse.Namespace,
    table: Mapping[str, Mapping[str, float]],
    *,
    digits: int = 2,
    **report: Any,
) -> None:
    """Print on what the figures were taken, and a row of them for each name; write all as JSON."""
    for part in (report["machine"], report.get("versions", {}), {"load after": os.getloadavg()[0]}):
        for name, value in part.items():
            print(f"{name}: {value}")
    width = max(map(len, table))
    columns = {head: max(9, len(head)) for head in next(iter(table.values()))}
    print(" " * width, *(f"{head.replace('_', ' '):>{wide}}" for head, wide in columns.items()))
    for name, row in table.items():
        cells = (f"{round(row[head], digits):>{wide}}" for head, wide in columns.items())
        print(f"{name:>{width}}", *cells)
    write_json(options, {**report, "figures": table})


def write_json(options: argparse.Namespace, report: object) -> None:
    """Write the figures into a file, if they are wanted there."""
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def tell(text: str) -> None:
    """Show progress, away from the figures on stdout."""
    print(text, file=sys.stderr, flush=True)
