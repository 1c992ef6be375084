"""Measure how soon JAX is there, lets go of what waits for a dead rank, and is back.

python benchmarks/jax_recovery.py [--rounds 5] [--json FILE]

Each round starts four ranks, and takes the time of `jax.distributed.initialize()` after the import
of JAX on the slowest rank. Then, for each set of victims, all ranks are in a loop of psums when the
victims are killed: *released* is the time until the cell has ended on all others, *back* the time
from `heal` until a psum over all ranks has given the right sum. At last the loop is interrupted as
by ■, until the cell has ended on all ranks. The table has medians and the slowest of all rounds.
"""

import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from figures import Samples, publish, read_options
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.errors import DistError

INIT = """
import time
import jax
start_s = time.perf_counter()
jax.distributed.initialize()
time.perf_counter() - start_s
"""
DEFINE = """
import numpy as np
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

def make():
    mesh = jax.make_mesh((jax.device_count(),), ('i',))
    step = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh, in_specs=P('i'), out_specs=P())
    )
    rows = np.full((1, 3), rank + 1.0, np.float32)
    return step, jax.make_array_from_process_local_data(NamedSharding(mesh, P('i')), rows)
"""
SUM = "step, x = make()\nfloat(step(x).addressable_data(0)[0, 0])"
LOOP = """
print('here', flush=True)
while True:
    step(x).block_until_ready()
"""
VICTIMS = (0,), (2,), (1, 3)
RIGHT = ["10.0"] * 4


class _Arrivals:
    """Tells when all ranks of a cell have said something."""

    def __init__(self) -> None:
        self._missing = set(range(4))
        self.is_complete = threading.Event()

    def on_output(self, ranks: Sequence[int], _outputs: Any) -> None:
        self._missing.difference_update(ranks)
        if not self._missing:
            self.is_complete.set()

    def on_finished(self, result: Any) -> None: ...

    def on_note(self, text: str) -> None: ...

    def on_tick(self) -> None: ...


def measure(cluster: Cluster, times: Samples) -> str:
    """Take the times of one round; gives JAX's version."""
    times["initialize()"].append(max(float(text) for text in _values(cluster, INIT)))
    cluster.run(DEFINE, is_setup=True, label=1).raise_first()
    _check(cluster)
    for victims in VICTIMS:
        name = "ranks 1 and 3" if len(victims) > 1 else f"rank {victims[0]}"
        running = _begin_loop(cluster)
        pids = {engine.rank: engine.pid for engine in cluster.topology().engines}
        start_s = time.perf_counter()
        for rank in victims:
            os.kill(pids[rank], signal.SIGKILL)
        running.result(60)
        times[f"{name} killed: released"].append(time.perf_counter() - start_s)
        start_s = time.perf_counter()
        cluster.heal()
        _check(cluster)
        times[f"{name} killed: back"].append(time.perf_counter() - start_s)
    running = _begin_loop(cluster)
    start_s = time.perf_counter()
    cluster.interrupt()
    running.result(60)
    times["interrupted"].append(time.perf_counter() - start_s)
    return _values(cluster, "jax.__version__")[0].strip("'")


def _begin_loop(cluster: Cluster) -> Future[SpmdResult]:
    arrivals = _Arrivals()
    pool = ThreadPoolExecutor(1)
    running = pool.submit(cluster.run, LOOP, watcher=arrivals)
    pool.shutdown(wait=False)
    if not arrivals.is_complete.wait(60):
        cluster.interrupt()
        raise DistError("not all ranks have begun their loop within 60 s")
    return running


def _check(cluster: Cluster) -> None:
    if (found := _values(cluster, SUM)) != RIGHT:
        raise DistError(f"the sum of all ranks is {found} instead of {RIGHT}")


def _values(cluster: Cluster, code: str) -> list[str]:
    result = cluster.run(code)
    result.raise_first()
    return [rank.value_repr or "" for rank in result]


def main() -> None:
    options = read_options(__doc__, rounds=5)
    times: Samples = defaultdict(list)
    machine = {**describe_machine(), "ranks": 4, "rounds": options.rounds}
    for _ in range(options.rounds):
        with Cluster.start("localhost:4") as cluster:
            version = measure(cluster, times)
    table = {
        what: {"median_s": statistics.median(found), "slowest_s": max(found)}
        for what, found in times.items()
    }
    publish(options, table, digits=3, machine=machine, versions={"jax": version})


if __name__ == "__main__":
    main()
