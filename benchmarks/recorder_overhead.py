"""Measure what the recorder of collectives adds to each call, in one process.

python benchmarks/recorder_overhead.py [--calls 20000] [--rounds 51] [--json FILE]

A sample is the time of many begins and ends, of one Call made beforehand, divided by their number;
an empty loop is measured likewise and taken off. Calls come straight from a cell, through three
functions of ours as in a communicator, and from a file that a cell has called. Kinds take turns in
each round; the table has medians over all rounds, and the quickest round.
"""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from figures import publish, read_options, summarise
from machine import describe_machine
from one_rank import compile_loops, open_recorder, time_loops

import jupyter_dist
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.recording.recorder import CollectiveRecorder

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


def make_loops(recorder: CollectiveRecorder) -> dict[str, Callable[[int], object]]:
    """Compile the loops as if they stood in a cell, in a file of the user and in our package."""
    signature = Signature("all_reduce", "<f4", "1024", "sum", nbytes=4096)
    names: dict[str, Any] = {"recorder": recorder, "call": Call(signature, 1)}
    inside = Path(jupyter_dist.__file__).parent / "collective" / "communicator.py"
    for source, file in ((OURS, str(inside)), (FILE, "/home/user/train.py")):
        exec(compile(source, file, "exec"), names)
    return compile_loops(CELL, names)


def main() -> None:
    options = read_options(__doc__, calls=20_000, rounds=51)
    machine = describe_machine()
    with open_recorder() as recorder:
        assert recorder.is_shared
        samples = time_loops(make_loops(recorder), options.calls, options.rounds)
    empty_us = statistics.median(samples.pop("empty"))
    net = {name: [taken_us - empty_us for taken_us in found] for name, found in samples.items()}
    versions = {"numpy": np.__version__, "msgspec": msgspec.__version__}
    publish(options, summarise(net), machine=machine, versions=versions)
    print(f"budget: {BUDGET_US:g} µs for a begin and its end, straight from a cell")


if __name__ == "__main__":
    main()
