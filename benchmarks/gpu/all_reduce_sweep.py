"""Measure all_reduce over sizes: ours against nccl4py and cupyx.distributed, in one run.

python benchmarks/gpu/all_reduce_sweep.py [--hosts localhost] [--max 64M] [--rounds 5]
    [--oversubscribe] [--as-hosts] [--json FILE]

Starts a cluster with NCCL; all contenders reduce float32 in place, in turns, each with an NCCL
communicator of its own. A sample is one call on the slowest rank, by the device's clock; the table
has medians, and the bus bandwidth of nccl-tests. With --oversubscribe ranks share GPUs, with
--as-hosts each says that it is a host of its own, so that NCCL takes sockets; both show that it
works, not how fast GPUs are.
"""

import argparse
import ast
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.model.bench_plan import read_size

CELL = (Path(__file__).parent / "sweep_cell.py").read_text()
LIMIT_S = 240.0
FEW_CTAS = {"NCCL_MAX_CTAS": "2", "NCCL_NET_GDR_LEVEL": "LOC", "NCCL_NVLS_ENABLE": "0"}
SOCKETS = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0"}


def measure(options: argparse.Namespace) -> tuple[dict[str, dict[str, float]], int]:
    """Give median microseconds by bytes and contender, and the number of ranks."""
    env = FEW_CTAS if options.oversubscribe else {}
    env = {**env, **SOCKETS} if options.as_hosts else env
    sizes = [8]
    while sizes[-1] * 8 <= read_size(options.max):
        sizes.append(sizes[-1] * 8)
    cluster = Cluster.start(
        options.hosts, comm="nccl", oversubscribe=options.oversubscribe or None, env=env
    )
    try:
        if options.as_hosts:
            cluster.run("import os\nos.environ['NCCL_HOSTID'] = f'rank-{rank}'").raise_first()
        code = f"SIZES = {sizes!r}\nROUNDS = {options.rounds}\n{CELL}"
        result = cluster.run(code, timeout_s=LIMIT_S)
        result.raise_first()
        return json.loads(ast.literal_eval(result[0].value_repr or "''")), len(result)
    finally:
        cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", default="localhost")
    parser.add_argument("--max", default="64M")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--oversubscribe", action="store_true")
    parser.add_argument("--as-hosts", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    machine = describe_machine()
    medians, size = measure(options)
    for name, value in machine.items():
        print(f"{name}: {value}")
    names = list(next(iter(medians.values())))
    print(f"all_reduce, float32, in place, {size} ranks: median µs (bus bandwidth in GB/s)")
    print(f"{'bytes':>12}" + "".join(f"{name:>24}" for name in names))
    for nbytes, row in medians.items():
        factor = int(nbytes) * 2 * (size - 1) / size / 1e3
        cells = [f"{row[name]:12.1f} ({factor / row[name]:8.2f})" for name in names]
        print(f"{nbytes:>12}" + "".join(f"{cell:>24}" for cell in cells))
    if options.json:
        report = {"machine": machine, "ranks": size, "median_us": medians}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
