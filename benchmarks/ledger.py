"""The ledger: a line for each figure of ours in each run, and the pages that quote the last one.

    python benchmarks/ledger.py        # write the newest figures into the pages

In history.csv a run is all lines of one date: those of the earlier releases first, today's last.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from record import UNITS, Entry, Record
from report import FLOOR, OURS, compare, row, short

ROOT = Path(__file__).parents[1]
LEDGER = Path(__file__).parent / "history.csv"
RIVALS = ("ipyparallel", "jupyter-distributed", FLOOR)
BEFORE = "over release before"
COLUMNS = (
    *("date", "commit", "machine", "load", "python", "pyzmq"),
    *("figure", "ranks", "way", "value", "unit", "samples"),
    *(f"over {rival}" for rival in RIVALS),
    BEFORE,
)
QUOTED = {
    ("ready", ""): "start, until all ranks have run a cell",
    ("empty cell", "%%spmd"): "empty cell (`%%spmd`)",
    ("printing cell", "%%spmd"): "100 lines printed by each rank (`%%spmd`)",
    ("push 1 MiB", "cluster.push"): "push of 1 MiB to all ranks",
    ("push 64 MiB", "cluster.push"): "push of 64 MiB to all ranks",
    ("pull 64 MiB", "cluster.pull"): "pull of 64 MiB from each rank",
    ("engine memory", ""): "memory of a rank",
    ("idle CPU", ""): "CPU of all processes while idle",
}
"""What pages quote, by figure and way."""
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- /figures -->)", re.DOTALL)
Line = dict[str, str]


def lines_of(
    record: Record,
    machine: Mapping[str, Any],
    versions: Mapping[str, Mapping[str, str]],
    commits: Sequence[str],
) -> Iterator[Line]:
    """Return the lines of a run; `commits` are those of earlier releases in order, then today's."""
    ratios = {(c.ours, c.rival.contender): f"{c.ratio:.3f}" for c in compare(record)}
    run = {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}",
        "load": f"{machine['load before']:.1f}",
        "python": machine["python"],
    }
    endings = [*(f"@{commit}" for commit in commits[:-1]), ""]
    befores = ["@nothing", *endings[:-1]]
    for commit, ending, before in zip(commits, endings, befores, strict=True):
        for entry in _measured(record, ending):
            samples = record.samples[entry]
            yield {
                **run,
                "commit": commit,
                "pyzmq": versions[entry.contender]["pyzmq"],
                "figure": entry.what,
                "ranks": f"{entry.ranks}",
                "way": entry.way,
                "value": f"{record.median(entry):.4g}",
                "unit": UNITS[entry.what],
                "samples": f"{len(samples)}",
                **{f"over {rival}": ratios.get((entry, rival), "") for rival in RIVALS},
                BEFORE: ratios.get((entry, entry.kind + before), ""),
            }


def append(lines: Iterable[Line], ledger: Path = LEDGER) -> None:
    """Write the lines behind those that are there."""
    is_new = not ledger.exists()
    with ledger.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(lines)


def read_ledger(ledger: Path = LEDGER) -> list[Line]:
    """Return all lines; none when nothing was measured yet."""
    if not ledger.exists():
        return []
    with ledger.open(newline="") as file:
        return list(csv.DictReader(file))


def renew_pages() -> None:
    """Write the newest figures into every page that quotes them."""
    for page in find_pages():
        page.write_text(renewed(page.read_text(), read_ledger()))


def find_pages() -> list[Path]:
    """Find the pages that quote figures."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "README.md"]
    return [page for page in pages if BLOCK.search(page.read_text())]


def renewed(text: str, lines: Sequence[Line]) -> str:
    """Return the text with the newest figures between its markers."""
    run = _last_run(lines)

    def renew(block: re.Match[str]) -> str:
        return block[1] + (TABLES[block[2]](run) if run else "Not measured yet.\n") + block[3]

    return BLOCK.sub(renew, text)


def _measured(record: Record, ending: str) -> Iterator[Entry]:
    """Find our entries that have figures, of the release whose contenders end in this."""
    for what in UNITS:
        for entry in sorted(record.entries(what), key=lambda entry: (entry.kind, entry)):
            is_ours = entry.kind in OURS and entry.contender == entry.kind + ending
            if is_ours and entry in record.samples:
                yield entry


def _last_run(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of the last run in which ipyparallel took part."""
    dates = [line["date"] for line in lines if line["over ipyparallel"]]
    return [line for line in lines if [line["date"]] == dates[-1:]]


def _costs(run: Sequence[Line]) -> str:
    """Draw what today's commit costs, and what that is to ipyparallel."""
    last, cells = run[-1], _cells_of_today(run)
    ranks = sorted({n for what, way, n in cells if what == "empty cell"})
    rows = [row(["what", *(f"{n} ranks" for n in ranks)]), row(["---"] + ["---:"] * len(ranks))]
    for (what, way), words in QUOTED.items():
        found = [cells.get((what, way, n)) for n in ranks]
        rows += [row([words, *map(_quote, found)])] * any(found)
    return _page(
        f"Medians of {last['date'][:10]}, commit {last['commit']}, {last['machine']}, load "
        f"{last['load']} before the run;\nin brackets the same divided by what ipyparallel takes "
        "in the same run (cells and objects in its fastest way).",
        rows,
    )


def _rivals(run: Sequence[Line]) -> str:
    """Draw what eight ranks take, and how many times as much two rivals take."""
    last, cells = run[-1], _cells_of_today(run)
    rivals = ("ipyparallel", "jupyter-distributed")
    rows = [row(["with 8 ranks", "jupyter-dist", *rivals]), row(["---", *(["---:"] * 3)])]
    for (what, way), words in QUOTED.items():
        if line := cells.get((what, way, 8)):
            value = f"{short(float(line['value']))} {line['unit']}"
            rows.append(row([words, value, *(_times(line[f"over {rival}"]) for rival in rivals)]))
    return _page(
        f"Medians of one run, {last['date'][:10]}, {last['machine']}. For the others it says "
        "how many times as much they take, with cells and objects in the fastest of their ways:",
        rows,
    )


def _cells_of_today(run: Sequence[Line]) -> dict[tuple[str, str, int], Line]:
    """Find the lines of the last commit of a run, by figure, way and ranks."""
    today = [line for line in run if line["commit"] == run[-1]["commit"]]
    return {(line["figure"], line["way"], int(line["ranks"])): line for line in today}


def _times(ratio: str) -> str:
    return f"{1 / float(ratio):.1f} times" if ratio else ""


def _quote(line: Line | None) -> str:
    if line is None:
        return ""
    ratio = line["over ipyparallel"]
    return f"{short(float(line['value']))} {line['unit']}" + f" ({float(ratio):.2f})" * bool(ratio)


def _drift(run: Sequence[Line]) -> str:
    """Draw every figure at 2 and 8 ranks, of each release that ran, and the last two's ratio."""
    commits = list(dict.fromkeys(line["commit"] for line in run))
    figures: dict[tuple[str, ...], dict[str, Line]] = {}
    for line in run:
        if line["ranks"] in ("2", "8"):
            figure = line["figure"], line["way"], line["ranks"], line["unit"]
            figures.setdefault(figure, {})[line["commit"]] = line
    rows = [
        row(["figure", "way", "ranks", "unit", *commits, BEFORE]),
        row(["---", "---", "---:", "---", *(["---:"] * len(commits)), "---:"]),
    ]
    for figure, by_commit in figures.items():
        found = [by_commit.get(commit) for commit in commits]
        values = [short(float(line["value"])) if line else "" for line in found]
        rows.append(row([*figure, *values, found[-1][BEFORE] if found[-1] else ""]))
    return _page(f"Run of {run[-1]['date']}, load before it {run[-1]['load']}:", rows)


def _page(words: str, rows: Iterable[str]) -> str:
    return "\n".join([words, "", *rows, ""])


TABLES: dict[str, Callable[[Sequence[Line]], str]] = {
    "costs": _costs,
    "drift": _drift,
    "rivals": _rivals,
}


if __name__ == "__main__":
    renew_pages()
