"""One cluster of real ranks on this machine: start, cells, barriers, the first interrupt, stop.

Run as a program, by the Python of any release, it prints its figures as one line of JSON.
"""

import argparse
import json
import math
import resource
import statistics
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cell_watcher import CellWatcher, repeat
from figures import tell

from jupyter_dist import Cluster
from jupyter_dist.errors import DistError

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


def measure_in_turn(
    pythons: Mapping[str, Path], ranks: int, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Return medians of the figures of several releases, by name, each run `options.rounds` times.

    What a run did not come to is missing.
    """
    found: dict[str, dict[str, list[float]]] = {name: {} for name in pythons}
    for _ in range(options.rounds):
        for name, python in pythons.items():
            command = [python, __file__, str(ranks), "--cells", str(options.cells)]
            command += ["--cells-s", str(options.cells_s), "--timeout-s", str(options.timeout_s)]
            ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            row = json.loads(ran.stdout.splitlines()[-1])
            tell(f"  {name}: {ran.stdout.splitlines()[-1]}")
            for figure, value in row.items():
                if figure != "problem":
                    found[name].setdefault(figure, []).append(value)
    return {
        name: {figure: statistics.median(values) for figure, values in figures.items()}
        for name, figures in found.items()
    }


def main() -> None:
    """Measure once, whatever it comes to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ranks", type=int)
    parser.add_argument("--cells", type=int, default=30)
    parser.add_argument("--cells-s", type=float, default=10.0)
    parser.add_argument("--timeout-s", type=float, default=120.0)
    options = parser.parse_args()
    # Releases until 0.1.0 do not do that themselves.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    row: dict[str, Any] = {}
    try:
        measure_real(options.ranks, options, row)
    except (DistError, TimeoutError) as error:
        row["problem"] = f"{type(error).__name__}: {error}"
    print(json.dumps({name: each for name, each in row.items() if _is_told(each)}))


def _is_told(figure: object) -> bool:
    return not isinstance(figure, float) or math.isfinite(figure)


if __name__ == "__main__":
    main()
