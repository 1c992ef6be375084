"""However a cluster in a job ends, neither the job nor anything of it is there 15 s later."""

import subprocess

import pytest

from jupyter_dist import Cluster
from tests.processes.leftovers import coordinator_of
from tests.processes.listener import begin

from .clusters import IN_A_COLLECTIVE, driver, wait_for_stage

WITHIN_S = 15.0


@pytest.mark.slow
def test_a_coordinator_that_is_killed_takes_the_job_with_it(start, sweep, in_background):
    cluster = start()
    begin(in_background, cluster, IN_A_COLLECTIVE)
    coordinator_of(cluster).kill()
    start.assert_no_process_left(WITHIN_S)
    cluster.detach()


@pytest.mark.slow
def test_a_coordinator_that_is_killed_while_the_job_waits_leaves_nothing_running(
    slurm, start, home, sweep, in_background, busy_nodes
):
    told = []
    future = in_background(start, name="demo", on_progress=told.append)
    wait_for_stage(told, "PENDING")
    waiting = Cluster.visit("demo", await_ready=False)
    home.remember(waiting)
    coordinator_of(waiting).kill()
    waiting.detach()
    assert future.exception(20) is not None
    slurm.scancel(busy_nodes)
    start.assert_no_process_left(WITHIN_S + 10)  # the job may begin, and then finds nobody


@pytest.mark.slow
def test_a_notebook_that_is_killed_takes_the_job_with_it(slurm, start):
    with subprocess.Popen(driver(keep_s=1), stdout=subprocess.PIPE, text=True) as notebook:
        try:
            assert notebook.stdout.readline() == "ready\n"
            assert slurm.squeue("%T") == ["RUNNING"]
        finally:
            notebook.kill()
    start.assert_nothing_left(WITHIN_S)


@pytest.mark.slow
def test_a_busy_cluster_stops_and_its_job_ends(start, in_background, within):
    cluster = start()
    begin(in_background, cluster, IN_A_COLLECTIVE)
    with within(WITHIN_S):
        cluster.stop()
        start.assert_nothing_left(5)


@pytest.mark.slow
def test_a_cluster_whose_node_is_out_of_reach_stops_and_its_job_ends(slurm, start, within):
    cluster = start()
    other = next(name for name in slurm.names if name != slurm.job(slurm.only_job())["BatchHost"])
    slurm.hosts.cut(other)
    with within(25):
        cluster.stop()
    slurm.heal(other)
    start.assert_nothing_left(40)  # Slurm must notice that the node is back
