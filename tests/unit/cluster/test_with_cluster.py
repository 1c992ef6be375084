import pytest

from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.errors import ClusterInUse


class TakenOver(Cluster):
    """A cluster that another process drives by now."""

    def __init__(self):
        self._role = "drive"
        self.is_detached = False

    def stop(self):
        raise ClusterInUse("driven by notebook 2")

    def detach(self):
        self.is_detached = True


def test_a_cluster_that_may_not_be_stopped_is_let_go():
    cluster = TakenOver()
    with pytest.raises(ClusterInUse), cluster:
        pass
    assert cluster.is_detached


def test_what_went_wrong_inside_is_not_hidden_by_that():
    cluster = TakenOver()
    with pytest.raises(ValueError, match="the real one"), cluster:
        raise ValueError("the real one")
    assert cluster.is_detached
