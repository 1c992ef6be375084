"""A cluster is looked at in passing: nobody waits, and nobody counts as being there."""

import json
import subprocess
import sys

import pytest

from jupyter_dist import Cluster
from jupyter_dist.cluster.connection.status_probe import StatusProbe
from jupyter_dist.launch.files.connection_file import running_clusters
from tests.suspending import resume, suspend

from .leftovers import coordinator_of, wait_until
from .listener import begin


@pytest.fixture
def look():
    """Make glances; all are closed in the end."""
    glances = []

    def make(name):
        (info,) = [info for info in running_clusters() if info.name == name]
        glances.append(StatusProbe(info))
        return glances[-1]

    yield make
    for glance in glances:
        glance.close()


def answer(glance):
    """Ask, and wait for the answer."""
    glance.ask()

    def has_answered():
        glance.listen(0.05)
        return not glance.is_waiting

    wait_until(has_answered, 10, "an answer")
    return glance


def test_a_glance_tells_how_the_cluster_is_and_who_drives(start, look):
    cluster = start("localhost:2", name="seen")
    seen = answer(look("seen"))
    assert [engine.state for engine in seen.topology.engines] == ["idle", "idle"]
    assert (seen.topology.state, seen.problem, seen.is_gone) == ("ready", "", False)
    assert seen.owner.startswith("program ")
    cluster.detach()
    wait_until(lambda: answer(seen).owner == "", 5, "its owner has left")
    Cluster.visit("seen").stop()
    assert seen.is_gone


@pytest.mark.slow
def test_a_stopped_coordinator_holds_nobody_up_and_is_heard_again(start, look, within):
    cluster = start("localhost:1", name="deaf")
    seen = answer(look("deaf"))
    coordinator = coordinator_of(cluster)
    suspend(coordinator.pid)
    try:
        with within(1.0):
            seen.ask()
            seen.listen(0.2)
        assert seen.is_waiting
        assert not seen.is_gone
        # Longer than its heartbeat allows: the connection is cut, and the question lost.
        wait_until(lambda: seen.listen(0.1) or seen.silence_s > 3, 10, "three seconds")
        assert seen.topology.state == "ready", "as it was when it answered last"
    finally:
        resume(coordinator.pid)

    def hears_again():
        seen.ask()
        seen.listen(0.1)
        return not seen.is_waiting

    wait_until(hears_again, 10, "an answer")
    assert seen.silence_s == 0.0


@pytest.mark.slow
def test_looking_keeps_no_cluster_alive(home, look, driver):
    assert driver.do("cluster = Cluster.start('localhost:1', name='short', keep_s=1.0)") == "ok"
    seen = answer(look("short"))
    home.processes()
    driver.close()
    wait_until(lambda: answer_or_end(seen), 15, "it has ended, although someone looked")


def answer_or_end(glance):
    glance.ask()
    glance.listen(0.05)
    return glance.is_gone


def test_running_clusters_are_listed_with_what_they_do(start, in_background):
    cluster = start("localhost:2", name="listed")
    begin(in_background, cluster, "print('here')\nimport time\ntime.sleep(60)")
    run = [sys.executable, "-m", "jupyter_dist.cli", "list", "--json"]
    (found,) = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)
    assert (found["name"], found["state"], found["ranks"]) == ("listed", "ready", 2)
    assert (found["states"], found["hosts"]) == ({"busy": 2}, ["localhost"])
    assert found["owner"]
    assert found["age_s"] > 0
    suspend(coordinator_of(cluster).pid)
    (found,) = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)
    assert (found["state"], found["ranks"]) == ("silent", 2)
    resume(coordinator_of(cluster).pid)
