"""Measure jupyter-dist against its rivals, in one run and interleaved.

    python benchmarks/against_peers.py [--quick] [--only NAME,NAME] [--ranks 2,8]
                                        [--releases TAG,COMMIT]

Every contender lives in a worker process of its own; the rivals in a virtual environment that is
made on the first run, ours in one for each release. What is compared is measured in turns (A, B, C,
then B, C, A, ...), so that a loaded machine is equally slow for all. README.md says what each
figure means.
"""

import argparse
import os
import random
import sys
import time
from dataclasses import dataclass, replace
from typing import TypeVar

from arena import Arena, ContenderError, Worker
from figures import tell
from idleness import measure_idleness
from ledger import append, lines_of, read_ledger, renew_pages
from machine import describe_machine, make_peers_venv
from record import Entry, Record
from releases import UnknownRelease, find_releases, make_our_venv, package_commit
from report import OURS, write_report

ALL = (
    "ours",
    "ours-magic",
    "ipyparallel",
    "ipyparallel-tuned",
    "jupyter-distributed",
    "bare-zeromq",
)
STARTERS = ("ours", "ipyparallel", "ipyparallel-tuned", "jupyter-distributed", "bare-zeromq")
RUNNERS = ("ours", "ours-magic", "ipyparallel", "jupyter-distributed", "bare-zeromq")
MOST_RANKS = {"jupyter-distributed": 8}
"""It is made for one machine's GPUs; more whole kernels than that are not asked of it here."""
ONLY_FOR_READY = {4: ("ours", "jupyter-distributed")}
START_DEADLINE_S = 180.0
CELL_DEADLINE_S = 40.0
T = TypeVar("T")
PAUSE_S = 0.01
"""Between two cells: what a contender still tidies up belongs to nobody else's figure."""
CELLS_IN_A_ROW = 10
MIB = 2**20
TRANSFERS_MIB = {"push": (1, 64), "pull": (64,)}


@dataclass(frozen=True)
class Plan:
    """Who is measured at how many ranks, and how often."""

    names: tuple[str, ...]
    ranks: tuple[int, ...]
    starts: dict[int, int]
    cells: dict[int, int]
    transfers: dict[int, int]
    releases: tuple[str, ...] = ()
    """Commits of earlier releases of ours, oldest first."""
    is_for_the_ledger: bool = False

    def who(self, names: tuple[str, ...], ranks: int) -> list[str]:
        """Choose the contenders that are measured at this number of ranks."""
        invited = ONLY_FOR_READY.get(ranks, ALL)
        chosen = [
            name
            for name in names
            if name in self.names and name in invited and ranks <= MOST_RANKS.get(name, ranks)
        ]
        earlier = [f"{n}@{commit}" for commit in self.releases for n in chosen if n in OURS]
        return chosen + earlier


DEFAULT = Plan(
    ALL,
    (2, 4, 8, 32),
    starts={2: 3, 4: 5, 8: 3, 32: 2},
    cells={2: 12, 8: 10, 32: 5},
    transfers={2: 5, 8: 5},
)
QUICK = Plan(
    ALL,
    (2, 8),
    starts={2: 1, 4: 1, 8: 1, 32: 1},
    cells={2: 4, 8: 4, 32: 3},
    transfers={2: 1, 8: 1},
)


def main() -> int:
    """Measure, write the report, say whether every figure of ours could be taken."""
    plan = read_options()
    began = time.monotonic()
    peers_python = make_peers_venv()
    machine = describe_machine()
    commits = (*plan.releases, package_commit())
    pythons = {**dict.fromkeys(ALL, peers_python), **dict.fromkeys(OURS, make_our_venv())}
    for commit in plan.releases:
        pythons |= dict.fromkeys([f"{name}@{commit}" for name in OURS], make_our_venv(commit))
    record = Record()
    with Arena(pythons) as arena:
        measure_start(arena, plan, record)
        for ranks in plan.ranks:
            measure_cells(arena, plan, ranks, record)
    machine["load after"] = os.getloadavg()[0]
    machine["run took"] = f"{time.monotonic() - began:.0f} s"
    is_complete = write_report(record, machine, arena.versions, arena.leftovers)
    if plan.is_for_the_ledger:
        append(lines_of(record, machine, arena.versions, commits))
        renew_pages()
    return 0 if is_complete else 1


def measure_start(arena: Arena, plan: Plan, record: Record) -> None:
    """Start fresh processes again and again: seconds until ready, then what they hold."""
    for ranks in plan.ranks:
        tell(f"starting {ranks} engines, {plan.starts.get(ranks, 2)} times each")
        for _ in range(plan.starts.get(ranks, 2)):
            for name in shuffled(plan.who(STARTERS, ranks)):
                entry = Entry("ready", ranks, name)
                if entry in record.missing:
                    continue
                try:
                    with arena.worker(name) as worker:
                        record.add(entry, worker.ask(START_DEADLINE_S, do="start", n=ranks))
                        measure_memory(worker, ranks, record)
                        worker.ask(60.0, do="stop")
                except ContenderError as failure:
                    record.miss(entry, str(failure))


def measure_memory(worker: Worker, ranks: int, record: Record) -> None:
    """Read the proportional set sizes while nobody else runs."""
    memory = worker.ask(30.0, do="memory")
    record.add(Entry("engine memory", ranks, worker.name), memory["engine"] / MIB)
    record.add(Entry("everything's memory", ranks, worker.name), memory["everything"] / MIB)
    record.parts[f"{worker.name} at {ranks}"] = {
        part: size / MIB for part, size in memory["parts"].items()
    }


def measure_cells(arena: Arena, plan: Plan, ranks: int, record: Record) -> None:
    """With all contenders up at once, measure them idle, then cells, pushes and pulls in turns."""
    if ranks not in plan.cells:
        return
    tell(f"cells on {ranks} ranks")
    workers = start_all(arena, plan.who(RUNNERS, ranks), ranks, record)
    measure_idleness(workers, ranks, record)
    trials = [
        (worker, Entry(f"{cell} cell", ranks, worker.name, way))
        for worker in workers
        for way in worker.ways["run"]
        for cell in ("empty", "printing")
        if (way, cell) != ("ping", "printing")
    ]
    measure_in_turns(trials, plan.cells[ranks], record, warm_ups=1)
    transfers = [
        (worker, Entry(f"{transfer} {mib} MiB", ranks, worker.name, way))
        for worker in workers
        for transfer, sizes_mib in TRANSFERS_MIB.items()
        for way in worker.ways[transfer]
        for mib in sizes_mib
    ]
    measure_in_turns(transfers, plan.transfers.get(ranks, 0), record)
    for worker in workers:
        arena.close(worker)


def start_all(arena: Arena, names: list[str], ranks: int, record: Record) -> list[Worker]:
    """Start one contender after the other; nothing is measured here."""
    ready = []
    for name in names:
        worker = arena.open(name)
        try:
            worker.ask(START_DEADLINE_S, do="start", n=ranks)
            ready.append(worker)
        except ContenderError as failure:
            record.miss(Entry("all cells", ranks, name), str(failure))
            arena.close(worker)
    return ready


def measure_in_turns(
    trials: list[tuple[Worker, Entry]], rounds: int, record: Record, warm_ups: int = 0
) -> None:
    """Do every trial once per round, each round in another order; a failure ends its trial."""
    for number in range(-warm_ups, rounds):
        for worker, entry in shuffled(trials):
            if entry in record.missing:
                continue
            try:
                answer = worker.ask(CELL_DEADLINE_S, **command_for(entry))
            except ContenderError as failure:
                record.miss(entry, str(failure))
                continue
            if number >= 0:
                add_samples(record, entry, answer)
            time.sleep(PAUSE_S)


def add_samples(record: Record, entry: Entry, answer: float | list[float]) -> None:
    """Take in a transfer, or a row of cells, of which the first came behind other contenders."""
    if not isinstance(answer, list):
        record.add(entry, answer * 1000)
        return
    record.add(replace(entry, what=f"lone {entry.what}"), answer[0] * 1000)
    for seconds in answer[1:]:
        record.add(entry, seconds * 1000)


def command_for(entry: Entry) -> dict[str, str | int]:
    """Say to a worker what is to be measured."""
    if entry.what.startswith(tuple(TRANSFERS_MIB)):
        transfer, mib, _ = entry.what.split()
        return {"do": transfer, "way": entry.way, "mib": int(mib)}
    cell = entry.what.removesuffix(" cell")
    return {"do": "run", "way": entry.way, "cell": cell, "times": CELLS_IN_A_ROW}


def shuffled(things: list[T]) -> list[T]:
    """Give the things in another order."""
    return random.sample(things, len(things))


def read_options() -> Plan:
    """Read the command line into a plan."""
    parser = argparse.ArgumentParser(description="Measure jupyter-dist against its rivals.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, 2 and 8 ranks")
    parser.add_argument("--only", help=f"contenders, of {', '.join(ALL)}")
    parser.add_argument("--ranks", help="numbers of ranks, such as 2,8")
    parser.add_argument(
        "--releases",
        help="earlier releases of ours, tags or commits, that run along; `none` for none; else the "
        "newest tag or, without one, the commit that the ledger has last",
    )
    options = parser.parse_args()
    plan = QUICK if options.quick else DEFAULT
    names = tuple(options.only.split(",")) if options.only else plan.names
    ranks = tuple(int(part) for part in options.ranks.split(",")) if options.ranks else plan.ranks
    if unknown := set(names) - set(ALL):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    try:
        releases = find_releases(options.releases, read_ledger())
    except UnknownRelease as problem:
        parser.error(f"{problem} Without any: --releases none.")
    return replace(
        plan,
        names=names,
        ranks=ranks,
        releases=releases,
        is_for_the_ledger=not options.quick,
    )


if __name__ == "__main__":
    sys.exit(main())
