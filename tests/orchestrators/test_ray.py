"""Clusters on the nodes of a real Ray: what they claim, how they are lost, what is given back."""

import pytest

from tests.facts import assert_tells
from tests.processes.results import values

from .clusters import SUM, refusal


@pytest.fixture
def begin(ray, start):
    """Start a cluster with one rank on each of two nodes of Ray."""

    def begin(**options):
        usual = {"launcher": "ray", "nodes": 2, "slots": 1, "scheduler": ray.address}
        return start(None, **usual | options)

    return begin


def test_ranks_compute_on_all_nodes_which_have_what_was_asked_for(begin, ray):
    cluster = begin(launcher_args=["CPU=2"])
    assert values(cluster.run(SUM)) == ["3"] * 2
    assert (ray.free(), ray.groups()) == (0.0, 1)
    cluster.stop()
    ray.assert_free()


def test_a_group_that_stays_pending_is_shown_and_given_back(begin, ray):
    told = []
    said = refusal(begin, nodes=3, timeout_s=12, on_progress=told.append)
    assert_tells(said, "Ray job ", "PENDING: INFEASIBLE", "3 nodes", "2 are alive")
    assert any("INFEASIBLE" in step.stage for step in told)


def test_a_node_that_is_lost_is_told_in_the_words_of_ray(begin, ray, in_background):
    cluster = begin()
    future = in_background(cluster.run, "while rank: pass")
    ray.kill_node()
    result = future.result(30)
    lost = [each for each in result if each.status == "lost"]
    assert len(lost) == 1
    assert_tells(str(lost[0].error), "Ray job ", "actor")


def test_a_group_that_is_taken_away_takes_its_ranks_along(begin, ray, in_background):
    cluster = begin()
    future = in_background(cluster.run, "while True: pass")
    ray.remove_group()
    result = future.result(30)
    assert {each.status for each in result} == {"lost"}
    assert_tells("\n".join(str(each.error) for each in result), "placement group was removed")


def test_a_cluster_that_is_not_there_is_named(begin):
    said = refusal(begin, scheduler="127.0.0.1:1")
    assert_tells(said, "127.0.0.1:1", "--scheduler")
