from types import SimpleNamespace
from unittest.mock import Mock

from jupyter_dist.errors import ClusterInUse

CELL = SimpleNamespace(label="In[3]", ranks=(0, 1), is_running=True)


class Result:
    """How the cell has ended, on no rank."""

    def __iter__(self):
        return iter(())

    def raise_first(self):
        """Nothing is raised."""


def test_the_running_cell_is_followed(dist, demo):
    demo.kept, demo.follow = (CELL,), Mock(return_value=Result())
    assert dist("attach", "demo", "--take-over")[0] == 0
    assert demo.calls == [("attach", False, True)]
    demo.follow.return_value, demo.replay = None, Mock()  # it ended before it was followed
    demo.replay.return_value.show.return_value = Result()
    assert dist("attach", "demo", "--watch")[0] == 0
    assert demo.replay.call_args.args == ("In[3]",)


def test_without_a_running_cell_that_is_said(dist, demo):
    assert dist("attach") == (0, "no cell runs on demo\n", "")
    assert demo.calls == [("attach", False, False)]


def test_a_cluster_in_use_names_the_way_out_of_a_terminal(dist, demo):
    demo.problem = ClusterInUse("notebook a owns it: %dist_attach demo --watch.")
    status, out, err = dist("attach", "demo", "--watch")
    assert (status, out) == (2, "")
    assert "jupyter dist attach demo --watch" in err
