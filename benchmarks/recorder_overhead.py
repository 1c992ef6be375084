"""Measure what the recorder of collectives adds to each call, in one process.

python benchmarks/recorder_overhead.py [--calls 20000] [--rounds 51] [--json FILE]

A sample is the time of many begins and ends, of one Call made beforehand, divided by their number;
an empty loop is measured likewise and taken off. Calls come straight from a cell, through three
functions of ours as in a communicator, and from a file that a cell has called. Kinds take turns in
each round; the table has medians over all rounds, and the quickest round.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from machine import describe_machine

import jupyter_dist
from jupyter_dist.collective.call import Call, Signature
from jupyter_dist.collective.recorder import CollectiveRecorder

BUDGET_US = 1.0
"""Of Python for a begin and its end, straight from a cell."""

CELL = """
def straight(count):
    for _ in range(count):
        recorder.end(recorder.begin(call))

def through_ours(count):
    for _ in range(count):
        recorder.end(ours(call))

def from_a_file(count):
    for _ in range(count):
        train(call)

def empty(count):
    for _ in range(count):
        pass
"""
FILE = """
def train(call):
    recorder.end(recorder.begin(call))
"""
OURS = """
def ours(call):
    return second(call)

def second(call):
    return third(call)

def third(call):
    return recorder.begin(call)
"""


def make_loops(recorder: CollectiveRecorder) -> dict[str, Callable[[int], None]]:
    """Compile the loops as if they stood in a cell, in a file of the user and in our package."""
    signature = Signature("all_reduce", "<f4", "1024", "sum", nbytes=4096)
    names: dict[str, Any] = {"recorder": recorder, "call": Call(signature, 1)}
    inside = Path(jupyter_dist.__file__).parent / "collective" / "communicator.py"
    for source, file in ((OURS, str(inside)), (FILE, "/home/user/train.py"), (CELL, "In[1]")):
        exec(compile(source, file, "exec"), names)
    return {name: names[name] for name in ("straight", "through_ours", "from_a_file", "empty")}


def measure(calls: int, rounds: int) -> dict[str, list[float]]:
    """Give the microseconds of one call in each round, by kind."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = CollectiveRecorder(Path(folder) / "rank-0.collectives")
        assert recorder.is_shared
        recorder.begin_cell("In[1]", "cell-1")
        loops = make_loops(recorder)
        samples: dict[str, list[float]] = {name: [] for name in loops}
        for number in range(rounds + 1):
            for name, loop in loops.items():
                start_ns = time.perf_counter_ns()
                loop(calls)
                elapsed_ns = time.perf_counter_ns() - start_ns
                # The first round faults the memory in and fills the cache of sites.
                if number:
                    samples[name].append(elapsed_ns / calls / 1e3)
        recorder.close()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000, help="in each sample")
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    machine = describe_machine()
    samples = measure(options.calls, options.rounds)
    empty_us = statistics.median(samples.pop("empty"))
    figures = {
        name: {
            "median_us": round(statistics.median(found) - empty_us, 3),
            "quickest_us": round(min(found) - empty_us, 3),
        }
        for name, found in samples.items()
    }
    versions = {"numpy": np.__version__, "msgspec": msgspec.__version__}
    report = {"machine": machine, "versions": versions, "begin_and_end": figures}
    print(", ".join(f"{key} {value}" for key, value in (machine | versions).items()))
    print(f"begin and end of one call, load {os.getloadavg()[0]:.1f}, budget {BUDGET_US:g} us")
    print(f"{'from':>14} {'median us':>10} {'quickest us':>12}")
    for name, row in figures.items():
        print(f"{name:>14} {row['median_us']:10.2f} {row['quickest_us']:12.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
