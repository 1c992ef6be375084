"""Clusters on the nodes of someone's workers: here processes of executors."""

import contextlib
import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, resource_tracker

import psutil
import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.probe.network import list_interfaces, offered_addresses
from tests.facts import assert_tells

from .leftovers import command_of, is_alive
from .results import values

pytestmark = [
    pytest.mark.skipif(
        not offered_addresses(list_interfaces()), reason="this machine is in no network"
    ),
]


@pytest.fixture(scope="module")
def _tracker():
    """Start Python's own helper before a test has a home, in which it would count as left."""
    resource_tracker.ensure_running()


@pytest.fixture
def workers(_tracker, home):
    """Two executors with one process each; in the end each has only that."""
    with contextlib.ExitStack() as stack:
        executors = [
            stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            for _ in range(2)
        ]
        yield executors


def submit(worker, function):
    return worker.submit(function)


def children_of(worker):
    worker = psutil.Process(worker.submit(os.getpid).result(10))
    return [child for child in worker.children(recursive=True) if is_alive(child)]


def test_a_cluster_runs_where_workers_are_which_are_free_then(home, workers):
    with Cluster.from_workers(submit, workers, timeout_s=60) as cluster:
        home.remember(cluster)
        assert values(cluster.run("world_size")) == ["2"] * 2
        (agent, *_) = children_of(workers[0])
        assert "jupyter_dist.agent" in command_of(agent)
        assert children_of(workers[1]) == []
    assert children_of(workers[0]) == []


def test_functions_of_one_worker_have_to_run_in_one_process(home, workers):
    turns = itertools.cycle(workers)
    with pytest.raises(StartFailed) as caught:
        Cluster.from_workers(lambda _, function: next(turns).submit(function), [0], timeout_s=60)
    assert_tells(str(caught.value), "another process")
    assert [children_of(worker) for worker in workers] == [[], []]


def test_a_worker_that_dies_meanwhile_is_told_in_the_words_of_its_owner(home, workers):
    def shoot(step):
        if "starts agents" in step.stage:
            workers[0].submit(os._exit, 3)

    # Its executor refuses the next call, if it has noticed the death by then.
    with pytest.raises((StartFailed, UsageError, BrokenProcessPool)) as caught:
        Cluster.from_workers(submit, workers[:1], timeout_s=60, on_progress=shoot)
    assert "terminated abruptly" in str(caught.value)
    assert Cluster.running() == []
