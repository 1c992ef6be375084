"""However a cluster over several hosts ends, nothing of it runs anywhere 15 s later."""

import subprocess
import sys

import pytest

from jupyter_dist import Cluster
from tests.matrix import only
from tests.processes.leftovers import coordinator_of, wait_until
from tests.processes.listener import begin

from .clusters import START_TIMEOUT_S, LabClusters, crash, values

THREE = "nodeA:1,nodeB:1,nodeC:1"
WITHIN_S = 15.0
IN_A_COLLECTIVE = """
import numpy as np
kept = rank
print("here")
for _ in range(100_000):
    comm.all_reduce(np.ones(1000))
"""
NOTEBOOK = """
import sys, time
from jupyter_dist import Cluster
cluster = Cluster.start({hosts!r}, ssh={ssh!r}, timeout_s={timeout_s}, keep_s=1)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def sweep(start):
    """Start one more cluster in the end: it removes the directories of a killed coordinator."""
    yield
    Cluster.running()
    start("localhost:1").stop()


@pytest.mark.slow
def test_a_notebook_that_is_killed_takes_its_cluster_with_it(start, home, lab):
    script = NOTEBOOK.format(hosts=THREE, ssh=lab.ssh, timeout_s=START_TIMEOUT_S)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as notebook:
        try:
            assert notebook.stdout.readline() == "ready\n"
            assert all(map(lab.leftovers, lab.names))
        finally:
            notebook.kill()
    start.assert_nothing_left(WITHIN_S)


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_busy", only([True], [False, True], at_night=[False]), ids=["idle", "busy"]
)
def test_a_coordinator_that_is_killed_takes_everything_with_it(
    start, in_background, sweep, is_busy
):
    cluster = start(THREE)
    if is_busy:
        begin(in_background, cluster, IN_A_COLLECTIVE)
    coordinator_of(cluster).kill()
    start.assert_no_process_left(WITHIN_S)
    cluster.detach()


@pytest.mark.slow
def test_a_host_that_cannot_be_told_ends_by_itself(start, lab, sweep, within):
    killed, stopped = start(THREE), start(THREE)
    lab.cut("nodeB")
    with within(WITHIN_S):
        coordinator_of(killed).kill()
        stopped.stop()
        start.assert_no_process_left(WITHIN_S)  # before the host is healed
    killed.detach()


def test_a_cluster_needs_no_sshd_once_it_runs(start, lab):
    cluster = start(THREE)
    lab.kill_sshd("nodeB")
    wait_until(lambda: not sessions(lab, "nodeB"), 5, "the session has ended")
    assert values(cluster.run("int(comm.all_reduce(1))")) == ["3"] * 3
    cluster.stop()
    start.assert_nothing_left(WITHIN_S)


def sessions(lab, host):
    return [process for process in lab.processes(host) if process.name().startswith("sshd")]


@pytest.mark.slow
def test_a_host_that_is_cut_off_costs_its_ranks_and_not_the_others(
    start, lab, in_background, within
):
    cluster = start(THREE)
    running = begin(in_background, cluster, IN_A_COLLECTIVE)
    lab.cut("nodeB")
    with within(WITHIN_S):
        result = running.result(40)
    assert [rank.status for rank in result] == ["peer_failed", "lost", "peer_failed"]
    assert "nodeB" in str(result[1].error)
    for survivor in (result[0], result[2]):
        assert str(survivor.error).startswith("PeerFailed: rank 1 is lost")
    assert [host.state for host in cluster.topology().hosts] == ["up", "lost", "up"]
    assert values(cluster.run("kept", ranks=[0, 2])) == ["0", "2"]
    with within(WITHIN_S):
        cluster.stop()
        start.assert_nothing_left(WITHIN_S)  # before the host is healed


FAULTS = {
    "silent": lambda lab, host: lab.drop(host),
    "deaf": lambda lab, host: lab.drop(host, "in"),
    "mute": lambda lab, host: lab.drop(host, "out"),
    "crashed": crash,
}


@pytest.fixture
def many(make_lab):
    """One host for each fault, and two to whom nothing happens."""
    return make_lab("first", *FAULTS, "last")


@pytest.fixture
def start_on_many(many, home):
    """Start clusters on them; they end with the test."""
    clusters = LabClusters(home, many)
    yield clusters
    clusters.close()


@pytest.mark.slow
def test_hosts_may_be_gone_in_many_ways_at_once(many, start_on_many, in_background, within):
    cluster = start_on_many(",".join(f"{host}:1" for host in many.names))
    idle = start_on_many("first:1,silent:1,last:1")
    assert idle.run("kept = rank").ok
    running = begin(in_background, cluster, IN_A_COLLECTIVE)
    for host, fault in FAULTS.items():
        fault(many, host)
    with within(WITHIN_S):
        result = running.result(40)
        wait_until(lambda: idle.status().ranks[1] == "lost", 40, "the idle cluster has noticed")
    ended = {host: rank.status for host, rank in zip(many.names, result, strict=True)}
    assert ended == {
        "first": "peer_failed",
        **dict.fromkeys(FAULTS, "lost"),
        "last": "peer_failed",
    }
    assert values(cluster.run("kept", ranks=[0, 5])) == ["0", "5"]
    assert values(idle.run("kept", ranks=[0, 2])) == ["0", "2"]
    with within(WITHIN_S):
        cluster.stop()
        idle.stop()
        start_on_many.assert_nothing_left(WITHIN_S)
