"""Measure how fast a checkpoint is written, and what one costs a computation beside it.

python benchmarks/checkpoints.py [--mib 2048] [--ranks 4] [--rounds 5] [--dir DIR] [--report FILE]

The bytes are random and lie over all ranks. *save* is `checkpoint.save` on all ranks, from a
barrier before to the end of the slowest rank: digests, parts, fsync, manifest and rename. *dd, 1
file* and *dd, a file per rank* copy the same bytes out of memory with `conv=fsync`, at once or a
part for each rank at the same time. All take turns in each round, in random order, on a disk that
has been told to be quiet (`sync`). *restore* reads them back and verifies them; a save goes past
the page cache where it can, so they come from the disk.

The loop is of steps of matrix products on every rank, each step with an all_reduce, for about
`--loop-s` seconds; *plain* has nothing beside it, *saving* begins one save of all the bytes with
`wait=False` before its first step, and its time includes the copy. Two saves go before: ranks keep
the memory for copies from the second one on, and what the first ones took is told apart. *Each step
waits* is the same loop where a step is a wait of 20 ms instead, as on ranks that compute on GPUs.
"""

import argparse
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any, Self

from figures import Samples, medians_of, read_options, write_json
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.errors import DistError

WRITING_GOAL = 0.8
"""Of the speed of dd, at least."""
LOOP_GOAL = 0.05
"""Of the loop's time, at most."""
BLOCK = "16M"
MAKE = """
import time
import numpy as np
share = {nbytes} // world_size
rng = np.random.default_rng(rank)
words = [rng.integers(0, 256, share // 8, np.uint8) for n in range(8)]
tree = {{f"layer{{n}}": each.view(np.float32) for n, each in enumerate(words)}}
with open({source!r}, "r+b") as file:
    _ = file.seek(rank * share)
    for array in words:
        _ = file.write(array)
"""
SAVE = """
comm.barrier()
start_s = time.perf_counter()
saved = checkpoint.save({directory!r}, tree)
comm.barrier()
seconds = time.perf_counter() - start_s
assert saved.nbytes >= {nbytes}
seconds
"""
RESTORE = """
comm.barrier()
start_s = time.perf_counter()
found = checkpoint.restore({directory!r})
comm.barrier()
seconds = time.perf_counter() - start_s
assert all(np.array_equal(found[name].view(np.uint8), tree[name].view(np.uint8)) for name in tree)
del found
seconds
"""
LOOP = """
matrix = np.random.default_rng(rank).random((384, 384))
def compute():
    global matrix
    for _ in range(4):
        matrix = matrix @ matrix
        matrix /= np.abs(matrix).max()
def wait():
    time.sleep(0.02)
def loop(steps, step, directory=None):
    comm.barrier()
    start_s = time.perf_counter()
    saving = checkpoint.save(directory, tree, wait=False) if directory else None
    held_s = time.perf_counter() - start_s
    beside = 0
    for _ in range(steps):
        step()
        _ = comm.all_reduce(np.ones(1000))
        beside += saving is not None and not saving.is_done
    loop_s = time.perf_counter() - start_s
    if saving is not None:
        _ = saving.wait()
    return loop_s, held_s, beside
"""


class Bench:
    """A cluster whose ranks hold the bytes, and the same bytes in memory for dd."""

    def __init__(self, cluster: Cluster, options: argparse.Namespace) -> None:
        self._cluster, self._ranks = cluster, options.ranks
        self._nbytes = options.mib << 20
        self._folder = Path(mkdtemp(prefix="checkpoints-", dir=options.dir))
        self._source = Path("/dev/shm", self._folder.name)
        self._place = str(self._folder / "saved")

    def __enter__(self) -> Self:
        self._source.touch()
        self.values(MAKE.format(nbytes=self._nbytes, source=str(self._source)) + LOOP)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)
        self._source.unlink()

    def values(self, code: str) -> list[str]:
        """Run a cell; give what its last expression was on each rank."""
        result = self._cluster.run(code)
        result.raise_first()
        return [rank.value_repr or "" for rank in result]

    def save(self) -> float:
        """Save, and give the seconds of the slowest rank."""
        return self._slowest(SAVE.format(directory=self._place, nbytes=self._nbytes))

    def restore(self) -> float:
        """Restore what was saved last, and compare it; gives the seconds."""
        return self._slowest(RESTORE.format(directory=self._place))

    def one_dd(self) -> float:
        """Copy everything into one file."""
        return self._time_dd(1)

    def many_dd(self) -> float:
        """Copy the part of each rank into a file of its own, all at once."""
        return self._time_dd(self._ranks)

    def tidy(self) -> None:
        """Remove all that was written; what comes next finds a quiet disk."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        os.sync()

    def loop(self, steps: int, step: str, *, saves: bool) -> tuple[float, float, int]:
        """Give a loop's seconds, those before its first step, and its steps beside the save."""
        place = repr(self._place) if saves else None
        told = self.values(f"loop({steps}, {step}, {place})")
        found = [eval(each, {}) for each in told]
        return max(found)[0], max(each[1] for each in found), max(each[2] for each in found)

    def _slowest(self, code: str) -> float:
        return max(float(text) for text in self.values(code))

    def _time_dd(self, files: int) -> float:
        share = self._nbytes // files
        start_s = time.perf_counter()
        copies = [
            subprocess.Popen(
                [
                    *(
                        "dd",
                        f"if={self._source}",
                        f"of={self._folder}/part-{number}",
                        f"bs={BLOCK}",
                    ),
                    *("iflag=skip_bytes,count_bytes", f"skip={number * share}", f"count={share}"),
                    *("conv=fsync", "status=none"),
                ]
            )
            for number in range(files)
        ]
        statuses = [copy.wait(600) for copy in copies]
        if any(statuses):
            raise DistError(f"dd failed with status {statuses}")
        return time.perf_counter() - start_s


def measure_writing(bench: Bench, rounds: int) -> Samples:
    """Take the seconds of each way to write; the first round is practice."""
    ways: dict[str, Callable[[], float]] = {
        "save": bench.save,
        "dd, 1 file": bench.one_dd,
        "dd, a file per rank": bench.many_dd,
    }
    times: Samples = {name: [] for name in (*ways, "restore")}
    for number in range(rounds + 1):
        for name in random.sample(list(ways), len(ways)):
            seconds = {name: ways[name]()}
            if name == "save":
                seconds["restore"] = bench.restore()
            bench.tidy()
            for what, found_s in seconds.items():
                if number:
                    times[what].append(found_s)
    return times


def measure_loop(bench: Bench, step: str, options: argparse.Namespace) -> Samples:
    """Take the seconds of a loop with and without a save beside it, in turns."""
    trial_s, _, _ = bench.loop(20, step, saves=False)
    steps = max(20, round(20 * options.loop_s / trial_s))
    names = ("plain", "saving", "held", "beside", "held at first")
    times: Samples = {name: [] for name in names}
    bench.save()  # it gives back what an earlier loop has kept
    bench.tidy()
    for _ in range(2):
        _, held_s, _ = bench.loop(20, step, saves=True)
        times["held at first"].append(held_s)
        bench.tidy()
    for number in range(options.rounds):
        for saves in (False, True) if number % 2 else (True, False):
            loop_s, held_s, beside = bench.loop(steps, step, saves=saves)
            times["saving" if saves else "plain"].append(loop_s)
            if saves:
                times["held"].append(held_s)
                times["beside"].append(beside / steps)
            bench.tidy()
    return times


def describe_writing(times: Samples, mib: int) -> list[str]:
    """Give the table of what was written, and whether the goal was met."""
    medians = medians_of(times)
    lines = [
        "| | seconds (least to most) | MiB/s | of the fastest dd |",
        "| --- | ---: | ---: | ---: |",
    ]
    best_s = min(found for name, found in medians.items() if name.startswith("dd"))
    for name, found in times.items():
        shown = f"{medians[name]:.2f} ({min(found):.2f} to {max(found):.2f})"
        ratio = "" if name == "restore" else f"{best_s / medians[name]:.2f}"
        lines.append(f"| {name} | {shown} | {mib / medians[name]:.0f} | {ratio} |")
    verdict = "met" if best_s / medians["save"] >= WRITING_GOAL else "missed"
    return [*lines, "", f"Goal: at least {WRITING_GOAL} of the fastest dd: {verdict}."]


def describe_loop(times: Samples) -> list[str]:
    """Give what a save adds to a loop."""
    medians = medians_of(times)
    added_s = medians["saving"] - medians["plain"]
    share = added_s / medians["plain"]
    verdict = "met" if share <= LOOP_GOAL else "missed"
    spread = {name: f"{min(found):.2f} to {max(found):.2f}" for name, found in times.items()}
    return [
        f"- plain: {medians['plain']:.2f} s ({spread['plain']})",
        f"- saving: {medians['saving']:.2f} s ({spread['saving']})",
        f"- of these, before the first step, for the copy: {medians['held']:.2f} s",
        f"- the same in the first two saves, into new memory: {spread['held at first']} s",
        f"- steps beside the save: {medians['beside']:.0%}",
        f"- added: {added_s:.2f} s, {share:.1%}; goal at most {LOOP_GOAL:.0%}: {verdict}",
    ]


def main() -> None:
    options = read_options(
        __doc__, mib=2048, ranks=4, rounds=5, loop_s=30.0, dir=gettempdir(), report=""
    )
    machine: dict[str, Any] = describe_machine()
    loops: dict[str, Samples] = {}
    with (
        Cluster.start(f"localhost:{options.ranks}", comm="ring") as cluster,
        Bench(cluster, options) as bench,
    ):
        writing = measure_writing(bench, options.rounds)
        for title, step in (("Each step computes", "compute"), ("Each step waits", "wait")):
            loops[title] = measure_loop(bench, step, options)
    machine["load after"] = os.getloadavg()[0]
    lines = ["# Checkpoints", "", *(f"- {key}: {value}" for key, value in machine.items())]
    lines += ["", "## Writing", "", *describe_writing(writing, options.mib)]
    for title, times in loops.items():
        lines += ["", f"## A loop beside a save. {title}", "", *describe_loop(times)]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.report:
        Path(options.report).write_text(text)
    write_json(options, {"machine": machine, "writing": writing, "loops": loops})


if __name__ == "__main__":
    main()
