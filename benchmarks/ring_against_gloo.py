"""Measure all_reduce of the ring against torch's gloo, interleaved in one run of real processes.

python benchmarks/ring_against_gloo.py [--ranks 4] [--rounds 5] [--json FILE]

Both reduce float32 in place, and each sample follows a barrier of the same library. A sample is
the time on the slowest rank; the table shows medians over all samples. On a machine with fewer
cores than ranks differences under about 30 % are noise.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np

from jupyter_dist.collective.ring import RingCommunicator, address_of, bind_listener

SIZES = {"4 B": (1, 40), "1 MiB": (1 << 18, 12), "64 MiB": (1 << 24, 2)}
"""Elements, and samples in each round."""

LIMIT_S = 300.0


def run_rank(rank: int, ranks: int, rounds: int, store: str, pipe: Connection) -> None:
    """Take part in every round and send the samples back."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    listener = bind_listener("127.0.0.1")
    pipe.send(address_of(listener))
    ring = RingCommunicator(rank, ranks, 1, listener, pipe.recv(), b"benchmark", LIMIT_S)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=LIMIT_S),
    )
    samples: dict[str, dict[str, list[float]]] = {}
    for name, (count, repeats) in SIZES.items():
        array = np.ones(count, np.float32)
        tensor = torch.from_numpy(np.ones(count, np.float32))
        kinds = {
            "ring": (ring.barrier, lambda array=array: ring.all_reduce(array, out=array)),
            "gloo": (dist.barrier, lambda tensor=tensor: dist.all_reduce(tensor)),
        }
        samples[name] = {kind: [] for kind in kinds}
        for number in range(rounds + 1):
            for kind, (barrier, reduce) in kinds.items():
                for _repeat in range(repeats):
                    array.fill(1)
                    tensor.fill_(1)
                    barrier()
                    start = time.perf_counter()
                    reduce()
                    elapsed = time.perf_counter() - start
                    # The first round connects and faults the memory in.
                    if number:
                        samples[name][kind].append(elapsed)
                    value = array[-1] if kind == "ring" else tensor[-1]
                    assert float(value) == ranks, f"{kind} reduced wrongly"
    ring.barrier()
    dist.destroy_process_group()
    ring.close()
    pipe.send((samples, torch.__version__))


def measure(ranks: int, rounds: int) -> tuple[dict[str, dict[str, float]], str]:
    """Run all ranks and return median milliseconds by size and library, and torch's version."""
    context = get_context("spawn")
    store = f"/tmp/ring_against_gloo.{os.getpid()}"
    pipes, processes = [], []
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
    if os.path.exists(store):
        os.unlink(store)
    medians = {
        name: {
            kind: 1e3
            * statistics.median(
                max(sample) for sample in zip(*(a[0][name][kind] for a in answers), strict=True)
            )
            for kind in ("ring", "gloo")
        }
        for name in SIZES
    }
    return medians, answers[0][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    medians, torch_version = measure(options.ranks, options.rounds)
    report = {
        "command": " ".join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.release()}",
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch_version,
        },
        "ranks": options.ranks,
        "load_average": os.getloadavg()[0],
        "median_ms": medians,
    }
    print(report["command"])
    print(report["machine"], "·", ", ".join(f"{k} {v}" for k, v in report["versions"].items()))
    print(f"all_reduce, float32, in place, {options.ranks} ranks, load {os.getloadavg()[0]:.1f}")
    print(f"{'size':>8} {'ring ms':>10} {'gloo ms':>10} {'gloo/ring':>10}")
    for name, row in medians.items():
        ratio = row["gloo"] / row["ring"]
        print(f"{name:>8} {row['ring']:10.3f} {row['gloo']:10.3f} {ratio:10.2f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
