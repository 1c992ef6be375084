"""Measure how long a person waits for the truth when something goes wrong, on local ranks.

python benchmarks/failure_times.py [--ranks 8] [--rounds 5] [--json FILE]

Each figure is the median of all rounds, with the quickest and the slowest. Clocks run in this
process, from the moment at which the fault happens to that at which the caller knows; ranks say
themselves when they begin to wait, or are about to fail (time.monotonic is one clock for all
processes of a machine).
"""

import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from figures import Samples, publish, read_options
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.protocol.messages import Output, RankFinished

GOALS_S = {
    "a process exits: the cell has failed": 0.2,
    "a rank raises: all others are out of the collective": 0.5,
    "■ on Python code: the cell has ended": 0.5,
    "■ with ranks in a ring collective: the cell has ended": 4.0,
    "a rank never comes: the verdict is in the cell": 5.0,
    "one lost rank is healed": 2.0,
    "attach and take in 10 MB of missed output": 1.0,
}
WAITING = "print('at', time.monotonic(), flush=True)\n"
EXITS = WAITING + "os.kill(os.getpid(), 9) if rank == 1 else comm.barrier()"
RAISES = WAITING + "1 / 0 if rank == 1 else comm.barrier()"
SPINS = WAITING + "while True: pass"
STUCK = WAITING + "rank == 1 or comm.barrier()"
TALKS = "print('x' * 79 + '\\n' + ('y' * 99 + '\\n') * (10_000_000 // 100 // world_size))\n"


class Watcher:
    """Hears a cell: when ranks began, and the first note with a verdict."""

    def __init__(self) -> None:
        self.began_s: dict[int, float] = {}
        self.verdict_s = 0.0
        self.all_began = threading.Event()
        self.expected = 0
        self.ended_s: list[float] = []

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Take in when ranks began."""
        for output in outputs:
            for line in output.text.splitlines():
                if line.startswith("at "):
                    self.began_s |= dict.fromkeys(ranks, float(line.split()[1]))
        if len(self.began_s) >= self.expected:
            self.all_began.set()

    def on_finished(self, result: RankFinished) -> None:  # noqa: ARG002
        """Take in that a rank has ended."""
        self.ended_s.append(time.monotonic())

    def on_note(self, text: str) -> None:
        """Take in the verdict."""
        if "never called it" in text and not self.verdict_s:
            self.verdict_s = time.monotonic()

    def on_tick(self) -> None:
        """Nothing is drawn."""


def main() -> None:
    """Measure everything, and print the table."""
    options = read_options(__doc__, ranks=8, rounds=5)
    machine = {**describe_machine(), "ranks": options.ranks, "rounds": options.rounds}
    samples: Samples = {name: [] for name in GOALS_S}
    with Cluster.start(f"localhost:{options.ranks}", comm="ring") as cluster:
        cluster.run("import os, time")
        for _ in range(options.rounds):
            measure(cluster, samples)
    table = {
        name: {
            "median_s": statistics.median(found),
            "least_s": min(found),
            "most_s": max(found),
            "goal_s": GOALS_S[name],
        }
        for name, found in samples.items()
    }
    publish(options, table, digits=3, machine=machine, samples_s=samples)


def measure(cluster: Cluster, samples: Samples) -> None:
    """Take one sample of everything."""
    names = iter(GOALS_S)

    def keep(seconds: float) -> None:
        samples[next(names)].append(seconds)

    keep(time_of_failure(cluster, EXITS))
    heal_s = timed(cluster.heal)
    cluster.run("import os, time")
    keep(time_of_failure(cluster, RAISES))
    keep(time_of_interrupt(cluster, SPINS))
    seen = Watcher()
    keep(time_of_interrupt(cluster, STUCK, after_s=6.0, watcher=seen))
    keep(seen.verdict_s - min(seen.began_s.values()))
    keep(heal_s)
    keep(time_of_attaching(cluster))


def time_of_failure(cluster: Cluster, code: str) -> float:
    """From the moment at which rank 1 fails until the caller has the whole result."""
    watcher = Watcher()
    cluster.run(code, watcher=watcher)
    return time.monotonic() - watcher.began_s[1]


def time_of_interrupt(
    cluster: Cluster, code: str, after_s: float = 0.5, watcher: Watcher | None = None
) -> float:
    """From the Ctrl-C in this process until the caller has the whole result."""
    watcher = watcher or Watcher()
    watcher.expected = cluster.world_size
    pressed: list[float] = []

    def press() -> None:
        watcher.all_began.wait(10)
        time.sleep(after_s)  # as a person looks on for a while
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    cluster.run(code, watcher=watcher)
    return time.monotonic() - pressed[0]


def time_of_attaching(cluster: Cluster) -> float:
    """From the call that attaches until everything that the running cell has said is here."""
    code = TALKS + "print('all said', flush=True)\ntime.sleep(1.5)"
    said = threading.Event()

    class Ears(Watcher):
        def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
            if "all said" in "".join(output.text for output in outputs):
                self.began_s |= dict.fromkeys(ranks, time.monotonic())
            if len(self.began_s) == cluster.world_size:
                said.set()

    cell = threading.Thread(target=cluster.run, args=(code,), kwargs={"watcher": Ears()})
    cell.start()
    said.wait(30)
    late = Ears()
    began_s = time.monotonic()
    other = Cluster.attach(cluster.name, watch=True)
    other.follow(late)
    other.detach()
    cell.join()
    return max(late.began_s.values()) - began_s


def timed(call: Callable[[], Any]) -> float:
    """Give how long it took."""
    began_s = time.monotonic()
    call()
    return time.monotonic() - began_s


if __name__ == "__main__":
    main()
