"""Clusters on the hosts of a real Dask scheduler: what they claim, how they are lost, what is given back."""

import os
import signal

import psutil
import pytest

from tests.facts import assert_tells
from tests.processes.leftovers import wait_until
from tests.processes.results import values

from .clusters import SUM, refusal


@pytest.fixture
def begin(dask, start):
    """Start a cluster with one rank on each of two hosts of Dask."""

    def begin(**options):
        usual = {"launcher": "dask", "nodes": 2, "slots": 1, "scheduler": dask.address}
        return start(None, **usual | options)

    return begin


def test_ranks_compute_on_all_hosts_while_one_worker_of_each_is_busy(begin, dask):
    cluster = begin()
    assert values(cluster.run(SUM)) == ["3"] * 2
    assert dask.tasks() == [1, 1]
    cluster.stop()
    dask.assert_free()


def test_a_worker_that_is_lost_is_told_in_the_words_of_dask(begin, dask, in_background):
    cluster = begin()
    future = in_background(cluster.run, "while rank: pass")
    dask.kill("127.0.0.3")
    first, second = future.result(30)
    assert first.status == "ok"
    assert_tells(str(second.error), "Dask", "127.0.0.3")


@pytest.mark.slow
def test_too_few_hosts_are_waited_for_and_named(begin, dask):
    told = []
    said = refusal(begin, nodes=3, timeout_s=8, on_progress=told.append)
    assert_tells(said, "Dask job ", "PENDING", "3 hosts", " 2 there")
    assert any("PENDING" in step.stage for step in told)


@pytest.mark.slow
def test_a_worker_that_stays_busy_is_named(begin, dask):
    with dask.busy("127.0.0.3"):
        told = []
        said = refusal(begin, timeout_s=20, on_progress=told.append)
        assert_tells(said, "Worker tcp://127.0.0.3:", "busy")
        assert any("waits for worker tcp://127.0.0.3:" in step.stage for step in told)


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_named(begin):
    said = refusal(begin, scheduler="tcp://127.0.0.1:1")
    assert_tells(said, "tcp://127.0.0.1:1", "--scheduler")


def test_nothing_is_left_of_a_coordinator_that_was_killed(begin, dask, sweep):
    cluster = begin()
    os.kill(cluster._connection.coordinator_pid, signal.SIGKILL)
    wait_until(lambda: dask.tasks() == [0, 0], 30, "the workers are free")
    wait_until(lambda: not helpers(), 10, "the process with the client has ended")


def helpers():
    """Processes with an orchestrator's client of any cluster."""
    mark = "jupyter_dist.launch.orchestrators"
    return [
        each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or ())
    ]
