"""What contenders take of a core while nothing is asked of them, all in the same seconds."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import psutil
from arena import Worker
from process_costs import cpu_time
from record import Entry, Record

SETTLE_S, SPAN_S = 10.0, 20.0
"""Until what a start leaves to do is done, and how long is measured then."""
WHAT = "idle CPU"
PARTS = {
    f"{WHAT} of the coordinator": "jupyter_dist.coordinator",
    f"{WHAT} of the agent": "jupyter_dist.agent",
}
"""Of ours also by part: the module that its process runs."""


class Look(NamedTuple):
    """What all processes below one have used so far."""

    at_s: float
    used_s: dict[str, float]
    """CPU time, by what is measured."""


def measure_idleness(workers: Sequence[Worker], ranks: int, record: Record) -> None:
    """Add the shares of a core, in percent; the worker, which is the client, does not count."""
    time.sleep(SETTLE_S)
    before = [look_below(worker.pid) for worker in workers]
    time.sleep(SPAN_S)
    for worker, first in zip(workers, before, strict=True):
        last = look_below(worker.pid)
        for what, used_s in last.used_s.items():
            share = (used_s - first.used_s[what]) / (last.at_s - first.at_s)
            record.add(Entry(what, ranks, worker.name), 100 * share)


def look_below(pid: int) -> Look:
    """Return what the processes have used that this one has started, and theirs."""
    used_s = {WHAT: 0.0}
    for process in psutil.Process(pid).children(recursive=True):
        try:
            command, took_s = process.cmdline(), cpu_time(process.pid).total_s
        except (psutil.NoSuchProcess, FileNotFoundError):  # it has just ended
            continue
        used_s[WHAT] += took_s
        for what, module in PARTS.items():
            if module in command:
                used_s[what] = used_s.get(what, 0.0) + took_s
    return Look(time.perf_counter(), used_s)
