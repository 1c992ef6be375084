"""Measure what a cluster keeps of its cells: memory of each process, by thousands of cells.

python benchmarks/many_cells.py [--cells 20000] [--ranks 4]

A cell assigns a number, prints it, defines a function and shows a value. Resident memory is read
from /proc/PID/smaps_rollup after each thousand, and growth from the second thousand on is what a
line through these samples says; *sources* are the files of cells that debuggers open. Linux only.
"""

import statistics
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

import psutil
from figures import publish, read_options
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.version import __version__

STEP = 1000
CELL = """number = {number}
def twice(value):
    return 2 * value
print(rank, number)
twice(number)"""
BUDGET_KB = 20.0
"""A rank may grow by so much in a thousand cells."""


def resident_kb(pid: int) -> int:
    """Read how much memory of a process is in RAM, what it shares included."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def find_processes(cluster: Cluster) -> dict[str, int]:
    """Name the processes of the cluster, and this one."""
    ranks = [engine.pid for engine in cluster.topology().engines]
    zygote = psutil.Process(ranks[0]).parent()
    agent = zygote.parent() if zygote is not None else None
    coordinator = agent.parent() if agent is not None else None
    named = {f"rank {rank}": pid for rank, pid in enumerate(ranks)}
    for name, process in (("agent", agent), ("coordinator", coordinator)):
        if process is not None and process.pid != psutil.Process().pid:
            named[name] = process.pid
    return named | {"client": psutil.Process().pid}


def measure(cells: int, ranks: int) -> tuple[dict[str, list[int]], Sequence[float], list[int]]:
    """Run the cells; give memory after each thousand, seconds of each cell, files of sources."""
    took_s = array("d")  # a list of floats would be most of what this process keeps
    files: list[int] = []
    with Cluster.start(f"localhost:{ranks}") as cluster:
        processes = find_processes(cluster)
        memory: dict[str, list[int]] = {name: [] for name in processes}
        folder = cluster.run("get_ipython().compile.source_dir", ranks=0)[0].value_repr or ""
        for number in range(1, cells + 1):
            begin_s = time.perf_counter()
            cluster.run(CELL.format(number=number)).raise_first()
            took_s.append(time.perf_counter() - begin_s)
            if number % STEP == 0:
                for name, pid in processes.items():
                    memory[name].append(resident_kb(pid))
                files.append(len(list(Path(folder.strip("'")).iterdir())))
    return memory, took_s, files


def main() -> int:
    """Measure, print, and fail when a rank grows by more than the budget."""
    options = read_options(__doc__, cells=20_000, ranks=4)
    machine = {**describe_machine(), "jupyter-dist": __version__}
    memory, took_s, files = measure(options.cells, options.ranks)
    table = {
        name: {
            "kb_per_1000_cells": statistics.linear_regression(range(len(kb) - 1), kb[1:]).slope,
            "first_kb": kb[0],
            "last_kb": kb[-1],
        }
        for name, kb in memory.items()
    }
    publish(options, table, digits=1, machine=machine, memory_kb=memory, source_files=files)
    first, last = took_s[:STEP], took_s[-STEP:]
    print(f"median of a cell: {statistics.median(first) * 1e3:.2f} ms in the first thousand,")
    print(f"                  {statistics.median(last) * 1e3:.2f} ms in the last")
    print(f"sources: {files[0]} files after the first thousand, {files[-1]} after the last")
    grown = [row["kb_per_1000_cells"] for name, row in table.items() if name.startswith("rank")]
    return int(max(grown) > BUDGET_KB)


if __name__ == "__main__":
    raise SystemExit(main())
