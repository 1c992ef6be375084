"""What a cluster tells of the machine it is on: the same as the machine itself."""

import itertools
import os
import statistics
import threading
import time
from pathlib import Path

import psutil
import pytest

from jupyter_dist.probe.gpus import count_gpus

from .leftovers import engines_of, wait_until

PATIENCE_S = 30.0
NET = Path("/sys/class/net")


class Watch:
    """Every picture that a client gets, and when each of its samples was made."""

    def __init__(self, cluster, interval_s=0.1):
        self.hosts = []
        self._sampled_s = []
        self._changed = threading.Condition()
        self.end = cluster.watch_topology(self._take, interval_s)

    def _take(self, topology):
        now_s = time.monotonic()
        with self._changed:
            (host,) = topology.hosts
            self.hosts.append(host)
            self._sampled_s.append(now_s - host.sampled_s)
            self._changed.notify_all()

    def await_host(self, wanted):
        """Give the first picture of the host for which that holds."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(wanted, self.hosts)), PATIENCE_S)
            return next(filter(wanted, self.hosts))

    def await_samples(self, count, apart_s):
        """Wait for so many samples, told apart by that time; give the times between them."""

        def moments():
            found = self._sampled_s[:1]
            for moment_s in self._sampled_s:
                if moment_s > found[-1] + apart_s:
                    found.append(moment_s)
            return found

        with self._changed:
            assert self._changed.wait_for(lambda: len(moments()) >= count, PATIENCE_S)
            return [later - one for one, later in itertools.pairwise(moments())]


@pytest.fixture
def watch(start):
    """Watch a new cluster; options as in `Cluster.start`."""
    ends = []

    def begin(hosts="localhost:1", **options):
        cluster = start(hosts, **options)
        watching = Watch(cluster)
        ends.append(watching.end)
        return cluster, watching

    yield begin
    for end in ends:
        end()


def cards():
    """The network interfaces with a device behind them, else those that lead anywhere, by name."""
    states = psutil.net_if_stats()
    real = {name for name in states if (NET / name / "device").exists()}
    used = {name for name, state in states.items() if state.isup and name != "lo"}
    return {name: states[name] for name in real or used or {"lo"}}


def uses_as_much_as_now(host):
    """Tell whether a host was seen to use about the memory that this machine uses now."""
    memory = psutil.virtual_memory()
    return abs(host.memory_used_bytes - (memory.total - memory.available)) < 0.1 * memory.total


def test_cores_memory_numa_nodes_and_cards_are_those_of_the_machine(watch):
    _, watching = watch("localhost:2")
    host = watching.await_host(lambda host: host.nics)
    assert host.cpu_count == len(os.sched_getaffinity(0))
    assert host.memory_total_bytes == psutil.virtual_memory().total
    watching.await_host(uses_as_much_as_now)  # others may take or leave some just between
    nodes = Path("/sys/devices/system/node").glob("node*/cpulist")
    assert host.numa_nodes == sum(bool(path.read_text().strip()) for path in nodes)
    found = {nic.name: nic for nic in host.nics if nic.name in psutil.net_if_stats()}
    assert set(found) == set(cards())
    for name, state in cards().items():
        assert found[name].is_up is state.isup, name
        assert found[name].speed_mbps in (state.speed, 0), name
    assert len(host.gpus) == count_gpus()


@pytest.mark.slow
def test_the_load_of_a_cell_is_seen(watch):
    cluster, watching = watch()
    burn = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    assert cluster.run(burn).ok
    busy = watching.await_host(lambda host: host.cpu_percent * psutil.cpu_count() >= 50)
    assert busy.cpu_percent <= 100


@pytest.mark.slow
def test_hosts_are_observed_as_often_as_was_said(watch):
    _, watching = watch(sample_interval_s=4.0)
    # Each picture says how old what it shows was when it was sent: as usual it is 1 s at most.
    watching.await_host(lambda host: host.sampled_s > 2.5)
    watching.await_host(lambda host: host.sampled_s < 1.0)


@pytest.mark.slow
def test_hosts_can_be_observed_more_often_than_usual(watch):
    _, watching = watch(sample_interval_s=0.2)
    gaps_s = watching.await_samples(8, apart_s=0.15)
    assert statistics.median(gaps_s) < 0.7, gaps_s  # a busy machine may be late at times


def test_engines_are_looked_at_though_their_host_is_observed_rarely(watch):
    cluster, watching = watch(sample_interval_s=60)
    assert cluster.run("block = bytearray(200_000_000)").ok
    seen = watching.await_host(lambda host: host.engines[0].rss_bytes > 200_000_000)
    assert seen.sampled_s < 60


FILL_LATER = """
import threading, time
def fill():
    global block
    time.sleep(3)
    block = bytearray(200_000_000)
threading.Thread(target=fill).start()
"""
"""By then hosts are looked at rarely."""


def test_who_looks_at_a_cluster_in_which_nothing_runs_sees_it_as_it_is(start):
    cluster = start("localhost:1")
    assert cluster.run(FILL_LATER).ok
    process = engines_of(cluster)[0]
    wait_until(lambda: process.memory_info().rss > 200_000_000, 10, "it has its memory")
    assert cluster.topology().engines[0].rss_bytes > 200_000_000
