"""One cluster of real ranks on this machine: start, cells, barriers, the first interrupt, stop."""

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cell_watcher import CellWatcher, repeat

from jupyter_dist import Cluster

BARRIERS = 7
BARRIER = f"""
import time
comm.barrier()
took_s = []
for _ in range({BARRIERS}):
    begin_s = time.perf_counter()
    comm.barrier()
    took_s.append(time.perf_counter() - begin_s)
sorted(took_s)[{BARRIERS} // 2]
"""
BUSY = "print('begun', flush=True)\nimport time\ntime.sleep(600)"
BEGIN_TIMEOUT_S = 60.0


def measure_real(ranks: int, options: argparse.Namespace, row: dict[str, Any]) -> None:
    """Write the figures into the row as they come; names end in their units."""
    begin_s = time.monotonic()
    with Cluster.start(f"localhost:{ranks}", comm="ring", timeout_s=options.timeout_s) as cluster:
        row["start_s"] = time.monotonic() - begin_s
        cluster.run("pass")
        cells_s = repeat(lambda: cluster.run("pass"), options.cells, options.cells_s)
        row["cell_ms"] = 1e3 * statistics.median(cells_s)
        barriers = cluster.run(BARRIER)
        barriers.raise_first()
        row["barrier_ms"] = 1e3 * float(barriers[0].value_repr or "nan")
        measure_interrupt(cluster, row)
        stop_s = time.monotonic()
        cluster.stop()
        row["stop_s"] = time.monotonic() - stop_s


def measure_interrupt(cluster: Cluster, row: dict[str, Any]) -> None:
    """Interrupt all ranks in a cell, for the first time in their lives."""
    watcher = CellWatcher(cluster.world_size)
    with ThreadPoolExecutor(1) as beside:
        cell = beside.submit(cluster.run, BUSY, watcher=watcher)
        watcher.all_began.wait(BEGIN_TIMEOUT_S)
        begin_s = time.monotonic()
        cluster.interrupt()
        results = cell.result()
        row["interrupt_ms"] = 1e3 * (time.monotonic() - begin_s)
    row["not_interrupted"] = sum(each.status != "interrupted" for each in results)
