"""Measure clusters by their size: on simulated hosts, and with real ranks of this machine.

    python benchmarks/scale.py --hosts 128 --slots 8
    python benchmarks/scale.py --real 256
    python benchmarks/scale.py --hosts 8,32,128,512 --real 8,64,256,512 --report
    python benchmarks/scale.py --real 256 --before 38dc8e7 --report

Coordinator, client and wire are real; simulated hosts and ranks speak as real ones do, and run
nothing (see simulation/). They share this machine's cores with the coordinator: times are those of
such a machine, CPU times are the coordinator's own. `--report` writes what was measured over the
same sizes in results/scale.json, and all sizes into the tables of results/scale.md and
docs/explanation/scale.md. `--before` runs a release of before in turn with this one, since seconds
of one machine, or hour, are not those of another. Linux only.
"""

import argparse
import os
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version

from figures import tell
from machine import describe_machine
from releases import UnknownRelease, find_commit, make_our_venv, package_commit
from scale_real import measure_in_turn, measure_real
from scale_report import Row, describe, keep, write_pages
from scale_simulated import FAULTS, measure_simulated
from simulated_hosts import WorkerError

from jupyter_dist.errors import DistError

PACKAGES = ("pyzmq", "grpcio", "msgspec")


def main() -> int:
    """Measure each size, print its figures, and write them where that is wished."""
    options = read_options()
    machine = describe_machine()
    for name, value in machine.items():
        print(f"{name}: {value}")
    kinds = (("simulated", options.hosts), ("real", options.real))
    measured = [(kind, measure(kind, size, options)) for kind, sizes in kinds for size in sizes]
    for kind, row in measured:
        print(f"\n{kind}, {row['ranks']} ranks:", *describe(row), sep="\n  ")
    if options.report:
        keep(measured, machine)
        write_pages()
    return int(any("problem" in row for _, row in measured))


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=sizes, default=[], help="simulated hosts, as 8,128")
    parser.add_argument("--slots", type=int, default=8, help="ranks of each of them")
    parser.add_argument(
        "--faults",
        type=faults,
        default=list(FAULTS),
        help="what simulated hosts suffer: delay, die, drop (all, if nothing is said), or none",
    )
    parser.add_argument("--real", type=sizes, default=[], help="real ranks here, as 8,256")
    parser.add_argument("--cells", type=int, default=30, help="at most so many of each kind")
    parser.add_argument("--cells-s", type=float, default=10.0, help="and so many seconds")
    parser.add_argument("--idle-s", type=float, default=20.0, help="how long to look at it idle")
    parser.add_argument("--timeout-s", type=float, default=120.0, help="of a start")
    parser.add_argument(
        "--before", type=release, help="a commit to run real ranks with too, in turn"
    )
    parser.add_argument("--rounds", type=int, default=3, help="so often, with --before")
    parser.add_argument(
        "--report", action="store_true", help="write results/ and docs/explanation/scale.md"
    )
    options = parser.parse_args()
    if not options.hosts and not options.real:
        parser.error("nothing to measure: give --hosts 128, or --real 256, or both")
    return options


def sizes(text: str) -> list[int]:
    """Read numbers with commas between. Raise ValueError for anything else, also below 1."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise ValueError(text)
    return found


def faults(text: str) -> list[str]:
    """Read names of faults with commas between, or `none`. Raise ValueError for another one."""
    named = [] if text == "none" else text.split(",")
    if unknown := set(named) - FAULTS.keys():
        raise ValueError(unknown)
    return [name for name in FAULTS if name in named]


def release(name: str) -> str:
    """Read the name of one commit. Raise ArgumentTypeError for what is none of this repository."""
    try:
        return find_commit(name)
    except UnknownRelease as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def measure(kind: str, size: int, options: argparse.Namespace) -> Row:
    """Return the figures of one size; where it failed, those until then, and the problem."""
    tell(f"{kind}: {size}")
    row: Row = {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": package_commit(),
        "load": round(os.getloadavg()[0], 1),
        "versions": {name: version(name) for name in PACKAGES},
    }
    begin_s = time.monotonic()
    try:
        if kind == "real":
            row |= {"hosts": 1, "ranks": size}
            if options.before:
                compare_real(size, options, row)
            else:
                measure_real(size, options, row)
        else:
            row |= {"hosts": size, "ranks": size * options.slots}
            measure_simulated(size, options.slots, options, row)
    except (DistError, WorkerError, TimeoutError) as error:
        row["problem"] = f"{type(error).__name__}: {error}"
    tell(f"  {time.monotonic() - begin_s:.0f} s")
    return row


def compare_real(size: int, options: argparse.Namespace, row: Row) -> None:
    """Measure this commit and one of before in turn: medians, and how they compare."""
    before = options.before
    pythons = {before: make_our_venv(before), "today": make_our_venv()}
    medians = measure_in_turn(pythons, size, options)
    row |= medians["today"]
    row["rounds"], row["before"] = options.rounds, {"commit": before} | medians[before]


if __name__ == "__main__":
    sys.exit(main())
