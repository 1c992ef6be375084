import atexit
import gc
import os

import pytest

from jupyter_dist.cluster import cluster as module
from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.errors import ClusterInUse, DistError


class Unstoppable(Cluster):
    """A cluster that another process drives by now, or whose coordinator does not answer."""

    def __init__(self, problem):
        self._role = "own"
        self._pid = os.getpid()
        self._problem = problem
        self.is_detached = False

    def stop(self):
        raise self._problem

    def detach(self):
        self.is_detached = True


@pytest.mark.parametrize("inside", [None, ValueError("cause")])
@pytest.mark.parametrize("problem", [ClusterInUse("another owns it"), DistError("it still runs")])
def test_a_cluster_that_cannot_be_stopped_is_let_go_and_hides_nothing(problem, inside):
    cluster = Unstoppable(problem)

    def use():
        with cluster:
            if inside is not None:
                raise inside

    with pytest.raises(type(inside or problem)):
        use()
    assert cluster.is_detached


def test_at_the_exit_all_that_are_left_are_detached_and_those_that_are_gone_forgotten(monkeypatch):
    at_exit = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    register = module._connected.__wrapped__
    kept, gone = Unstoppable(None), Unstoppable(None)
    connected = register()
    connected.update((kept, gone))
    del gone
    gc.collect()
    assert list(connected) == [kept]
    at_exit[0]()
    assert kept.is_detached
