"""Measure all_reduce of the ring against torch's gloo, interleaved in one run of real processes.

python benchmarks/ring_against_gloo.py [--ranks 4] [--rounds 5] [--json FILE]

Both reduce float32 in place, in turns, each time after the same barrier. A sample is the time on
the slowest rank; the table shows medians over all samples. On a machine with fewer cores than
ranks differences under about 30 % are noise, and other programs slow both down unevenly: look at
the load before and after.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from figures import publish, read_options
from machine import describe_machine

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport

SIZES = {
    "8 B": (2, 200),
    "1 KiB": (1 << 8, 200),
    "64 KiB": (1 << 14, 100),
    "1 MiB": (1 << 18, 20),
    "64 MiB": (1 << 24, 2),
}
"""Elements, and samples in each round."""

KINDS = ("ring", "gloo")
LIMIT_S = 300.0

Samples = dict[str, dict[str, list[float]]]
"""Seconds, by size and kind."""


def run_rank(rank: int, ranks: int, rounds: int, store: str, pipe: Connection) -> None:
    """Take part in every round and send the samples back."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    listener = bind_listener("127.0.0.1")
    pipe.send(address_of(listener))
    group = Group(rank, ranks, 1)
    ring = HostCommunicator(group, RingTransport(group, listener, pipe.recv(), b"benchmark"))
    ring.timeout_s = LIMIT_S
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=LIMIT_S),
    )
    samples: Samples = {name: {kind: [] for kind in KINDS} for name in SIZES}
    for number in range(rounds + 1):
        for name, (count, repeats) in SIZES.items():
            array = np.ones(count, np.float32)
            tensor = torch.from_numpy(array)
            calls = {
                "ring": lambda array=array: ring.all_reduce(array, out=array),
                "gloo": lambda tensor=tensor: dist.all_reduce(tensor),
            }
            for _repeat in range(repeats):
                for kind, reduce in calls.items():
                    seconds = measure_once(ring.barrier, reduce, array, ranks)
                    if number:  # the first round connects
                        samples[name][kind].append(seconds)
    ring.barrier()
    dist.destroy_process_group()
    ring.close()
    pipe.send((samples, torch.__version__))


def measure_once(
    barrier: Callable[[], None], reduce: Callable[[], Any], array: Any, ranks: int
) -> float:
    """Reduce once, in step with the others; give the seconds that it took here."""
    array.fill(1)
    barrier()
    start = time.perf_counter()
    reduce()
    seconds = time.perf_counter() - start
    assert array[0] == array[-1] == ranks, "reduced wrongly"
    return seconds


def measure(ranks: int, rounds: int) -> tuple[dict[str, dict[str, float]], str]:
    """Run all ranks and return median milliseconds by size and kind, and torch's version."""
    context = get_context("spawn")
    pipes, processes = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        for rank in range(ranks):
            here, there = context.Pipe()
            process = context.Process(
                target=run_rank, args=(rank, ranks, rounds, store, there), daemon=True
            )
            process.start()
            there.close()
            pipes.append(here)
            processes.append(process)
        peers = [pipe.recv() for pipe in pipes]
        for pipe in pipes:
            pipe.send(peers)
        answers = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join(30)
    medians = {
        name: {
            kind: 1e3
            * statistics.median(
                max(sample) for sample in zip(*(a[0][name][kind] for a in answers), strict=True)
            )
            for kind in KINDS
        }
        for name in SIZES
    }
    return medians, answers[0][1]


def main() -> None:
    options = read_options(__doc__, ranks=4, rounds=5)
    machine = {**describe_machine(), "ranks": options.ranks, "rounds": options.rounds}
    medians, torch_version = measure(options.ranks, options.rounds)
    table = {
        size: {
            **{f"{kind}_ms": row[kind] for kind in KINDS},
            "gloo/ring": row["gloo"] / row["ring"],
        }
        for size, row in medians.items()
    }
    versions = {"numpy": np.__version__, "torch": torch_version}
    publish(options, table, digits=3, machine=machine, versions=versions, median_ms=medians)


if __name__ == "__main__":
    main()
