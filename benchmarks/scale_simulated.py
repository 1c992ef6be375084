"""One cluster on simulated hosts: start, cells, idleness, and faults: late, dead, silent."""

import argparse
import os
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from cell_watcher import CellWatcher, repeat
from process_costs import CpuTime, cpu_time, size_of
from simulated_hosts import SimulatedHosts, WorkerError
from simulation.cells import EMPTY, HELD, LINE

from jupyter_dist import Cluster
from jupyter_dist.coordinator.agents.deployment import RELAY_FROM_RANKS, RELAYS_FROM_RANKS
from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import running_clusters
from jupyter_dist.launch.files.join_file import join_path
from jupyter_dist.launch.processes.open_files import files_of_the_coordinator

LATE_S = 3.0
"""So much later than the others the last host ends a cell, to see what waiting costs."""
CALM_S = 8.0
"""After a cell agents look closely for 2 s, and tell of it within the next 5 s."""
HELD_TIMEOUT_S = 90.0


def measure_simulated(
    hosts: int, slots: int, options: argparse.Namespace, row: dict[str, Any]
) -> None:
    """Write the figures into the row as they come; names end in their units."""
    has_relays = hosts * slots >= RELAYS_FROM_RANKS and slots >= RELAY_FROM_RANKS
    raise_file_limit(files_of_the_coordinator(hosts if has_relays else hosts * slots, hosts))
    with SimulatedHosts(hosts, slots) as simulated:
        bench = Bench(simulated, options, row)
        with bench.start():
            bench.measure_cells()
            bench.measure_idle()
            for name in options.faults:
                FAULTS[name](bench)
            row["stop_s"] = timed(bench.cluster.stop)


class Bench:
    """What is measured of one cluster."""

    def __init__(
        self, simulated: SimulatedHosts, options: argparse.Namespace, row: dict[str, Any]
    ) -> None:
        self._simulated, self._options, self._row = simulated, options, row
        self._coordinator = 0
        self._began_s, self._used = 0.0, CpuTime(0.0, 0.0)
        """When the hosts began to join, and what the coordinator had used by then."""

    def start(self) -> Cluster:
        """Start the cluster; time runs from the moment at which the hosts may join."""
        name = f"scale-{os.getpid()}-{self._simulated.hosts}"
        self.cluster = Cluster.start(
            f"join:{self._simulated.hosts}",
            name=name,
            comm="ring",
            timeout_s=self._options.timeout_s,
            on_progress=lambda _: self._bring_hosts(name),
        )
        start_s = time.monotonic() - self._began_s
        size = size_of(self._coordinator)
        self._row |= {
            "start_s": start_s,
            "start_cpu_s": cpu_time(self._coordinator).since(self._used).total_s,
            "rss_mib": size.rss_mib,
            "files": size.files,
            "threads": size.threads,
        }
        return self.cluster

    def _bring_hosts(self, name: str) -> None:
        """Let the hosts join, once: the cluster waits for them, so that the join file is there."""
        if self._coordinator:
            return
        (self._coordinator,) = (
            info.coordinator_pid for info in running_clusters() if info.name == name
        )
        self._began_s, self._used = time.monotonic(), cpu_time(self._coordinator)
        self._simulated.join(join_path(name))

    def measure_cells(self) -> None:
        """Take the median of empty cells, and of cells in which each rank prints a line."""
        self.cluster.run(EMPTY)
        for name, code in (("cell", EMPTY), ("line_cell", LINE)):
            used, client_s = cpu_time(self._coordinator), time.process_time()
            simulating_s = self._simulated.cpu_s()
            run = partial(self.cluster.run, code)
            took_s = repeat(run, self._options.cells, self._options.cells_s)
            cpu = cpu_time(self._coordinator).since(used)
            totals_s = {
                "cpu": cpu.total_s,
                "main_cpu": cpu.main_s,
                "client_cpu": time.process_time() - client_s,
                "simulating_cpu": self._simulated.cpu_s() - simulating_s,
            }
            self._row[f"{name}_ms"] = 1e3 * statistics.median(took_s)
            for whose, total_s in totals_s.items():
                self._row[f"{name}_{whose}_ms"] = 1e3 * total_s / len(took_s)

    def measure_idle(self) -> None:
        """Take the coordinator's share of a core while no cell runs, and no one looks."""
        time.sleep(CALM_S)
        self._row["idle_percent"] = self._share(lambda: time.sleep(self._options.idle_s))

    def measure_late_host(self) -> None:
        """Take its share while a cell waits for the ranks of one host."""
        self._simulated.be_late(LATE_S)
        self._row["late_host_percent"] = self._share(lambda: self.cluster.run(EMPTY))
        self._simulated.be_late(0.0)

    def measure_death(self) -> None:
        """Let a rank die, and have it replaced."""
        told_s, over_s = self._suffer(self._simulated.kill_a_rank)
        self._row |= {"death_told_ms": 1e3 * told_s[0], "death_over_ms": 1e3 * over_s}
        self._row["heal_s"] = timed(self.cluster.heal)

    def measure_silence(self) -> None:
        """Let a host fall silent."""
        told_s, over_s = self._suffer(self._simulated.silence_the_last_host)
        self._row |= {"silent_host_told_s": told_s[-1], "silent_host_over_s": over_s}

    def _suffer(self, fault: Callable[[], float]) -> tuple[list[float], float]:
        """Let something happen while all ranks wait in a cell.

        Return after how many seconds each loss was told, and after how many the cell was over.
        Raise TimeoutError when no loss was told, WorkerError when ranks never came into the cell.
        """
        watcher = CellWatcher()
        with ThreadPoolExecutor(1) as beside:
            cell = beside.submit(self.cluster.run, HELD, timeout_s=HELD_TIMEOUT_S, watcher=watcher)
            try:
                self._simulated.await_held()
            except WorkerError as problem:
                told = Counter(end.status for end in watcher.ends.values())
                raise WorkerError(f"{problem}; told of ranks by then: {dict(told)}") from problem
            at_s = fault()
            cell.result()
            over_s = time.monotonic() - at_s
        losses = [told_s - at_s for told_s in watcher.told_s("lost")]
        if not losses:
            raise TimeoutError(f"no loss was told until the cell was over, after {over_s:.1f} s")
        return losses, over_s

    def _share(self, call: Callable[[], object]) -> float:
        used = cpu_time(self._coordinator)
        took_s = timed(call)
        return 100 * cpu_time(self._coordinator).since(used).total_s / took_s


FAULTS: dict[str, Callable[[Bench], None]] = {
    "delay": Bench.measure_late_host,
    "die": Bench.measure_death,
    "drop": Bench.measure_silence,
}
"""In this order: what comes after a host that was dropped would meet a cluster that lacks it."""


def timed(call: Callable[[], object]) -> float:
    """Return how many seconds a call takes."""
    begin_s = time.monotonic()
    call()
    return time.monotonic() - begin_s


def raise_file_limit(needed: int) -> None:
    """Let this process, and what it starts, have so many open files.

    Raise UsageError where only root may allow that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), max(hard, needed)))
    except ValueError:
        raise UsageError(
            f"so many hosts need {needed} open files, and processes of this machine may have "
            f"{hard}. Raise the hard limit, for example with `ulimit -Hn {needed}` as root."
        ) from None
