"""From `pip install` of a built wheel to the first output of `%%spmd`, as a newcomer meets it.

    make release && python benchmarks/newcomer.py            # prints what it took
    python benchmarks/newcomer.py dist/NAME.whl --rounds 5 --ledger   # and appends to history.csv

Each round has a fresh environment and a fresh kernel. What pip has to fetch comes from its index
and its cache as they are here; without the cache it is the network that is measured (--no-cache).
The second time is another kernel in the same environment.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ledger import append
from machine import describe_machine
from releases import package_commit

ROOT = Path(__file__).parents[1]
RANKS = 4
CELLS = {
    "%load_ext": "%load_ext jupyter_dist",
    "%dist_start": f"%dist_start -n {RANKS}",
    "first output": "%%spmd\nprint('hello from', world_size, 'ranks')",
}
GROUPED = rf"\[0-{RANKS - 1}\]\s*hello from {RANKS} ranks"
LONGEST_S = 900
INSTALL, FIRST, AGAIN = "newcomer's install", "newcomer's first output", "newcomer's second time"
PACKAGES = "newcomer's packages"
UNITS = {INSTALL: "s", FIRST: "s", AGAIN: "s", PACKAGES: "packages"}


def main() -> None:
    """Measure and print; append to the ledger if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, nargs="?", default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--ledger", action="store_true")
    options = parser.parse_args()
    wheel = options.wheel or newest_wheel()
    machine = describe_machine()
    rounds = [measure(wheel, no_cache=options.no_cache) for _ in range(options.rounds)]
    for key, value in {**machine, "wheel": wheel.name, **rounds[-1]["versions"]}.items():
        print(f"{key}: {value}")
    for step in rounds[0]["steps"]:
        show(step, [each["steps"][step] for each in rounds], "s")
    samples = {figure: [each[figure] for each in rounds] for figure in UNITS}
    for figure, values in samples.items():
        show(figure, values, UNITS[figure])
    if options.ledger:
        append(ledger_lines(samples, machine, rounds[-1]["versions"]))


def newest_wheel() -> Path:
    """Return the wheel that was built last; ends with a word where there is none."""
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        sys.exit("There is no wheel in dist: run `make release` first, or name one.")
    return wheels[-1]


def measure(wheel: Path, *, no_cache: bool) -> dict[str, Any]:
    """Install the wheel into a fresh environment, and start ranks there twice."""
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        began_s = time.monotonic()
        pip = [python, "-m", "pip", "install", "--quiet", *["--no-cache-dir"] * no_cache, wheel]
        run(pip, folder)
        install_s = time.monotonic() - began_s
        first, again = (first_output(python, folder) for _ in range(2))
        listed = json.loads(run([python, "-m", "pip", "list", "--format=json"], folder))
    versions = {each["name"]: each["version"] for each in listed}
    return {
        INSTALL: install_s,
        FIRST: install_s + sum(first.values()),
        AGAIN: sum(again.values()),
        PACKAGES: len(versions.keys() - {"pip", "setuptools"}),
        "steps": {"pip install": install_s, **first},
        "versions": {name: versions[name] for name in ("ipykernel", "ipython", "numpy", "pyzmq")},
    }


def first_output(python: Path, folder: str) -> dict[str, float]:
    """Return what each step takes in a new kernel of that environment, in seconds."""
    said = run([python, Path(__file__).parent / "peers" / "newcomers_kernel.py"], folder,
               json.dumps({"cells": CELLS, "grouped": GROUPED}))  # fmt: skip
    return dict(json.loads(said.splitlines()[-1]))


def run(command: list[Any], folder: str, typed: str = "") -> str:
    """Run a command in the environment's folder and return what it says; ends where it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, input=typed, capture_output=True, text=True,
        check=False, timeout=LONGEST_S,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def show(name: str, values: list[float], unit: str) -> None:
    """Print the median of all rounds, and from where to where they go."""
    middle, least, most = statistics.median(values), min(values), max(values)
    print(f"{name:24} {middle:8.3g} {unit} ({least:.3g} to {most:.3g}, {len(values)} rounds)")


def ledger_lines(
    samples: dict[str, list[float]], machine: dict[str, Any], versions: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Return a line of the ledger for each figure."""
    for figure, values in samples.items():
        yield {
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": package_commit(),
            "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}",
            "load": f"{machine['load before']:.1f}",
            "python": machine["python"],
            "pyzmq": versions["pyzmq"],
            "figure": figure,
            "ranks": f"{RANKS}",
            "value": f"{statistics.median(values):.4g}",
            "unit": UNITS[figure],
            "samples": f"{len(values)}",
        }


if __name__ == "__main__":
    main()
