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
from figures import publish, read_options
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.options.bench_options import read_size

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
    options = read_options(
        __doc__, hosts="localhost", max="64M", rounds=5, oversubscribe=False, as_hosts=False
    )
    machine = describe_machine()
    medians, size = measure(options)
    table = {}
    for nbytes, row in medians.items():
        factor = int(nbytes) * 2 * (size - 1) / size / 1e3
        table[nbytes] = {f"{name}, µs": median_us for name, median_us in row.items()}
        table[nbytes] |= {f"{name}, GB/s": factor / median_us for name, median_us in row.items()}
    print(f"all_reduce, float32, in place, {size} ranks: medians, and bus bandwidth")
    publish(options, table, machine=machine, ranks=size, median_us=medians)


if __name__ == "__main__":
    main()
