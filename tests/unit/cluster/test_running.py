"""`jupyter dist list`: a cluster in each line."""

import pytest

from jupyter_dist.cluster.running import RunningCluster, write_clusters


def cluster(name="a", **more):
    facts = {"states": {"idle": 2}, "hosts": ("a", "b"), "owner": "notebook x.ipynb", "age_s": 5.0}
    return RunningCluster(**{"name": name, "state": "ready", "ranks": 2, **facts, **more})


def test_each_cluster_is_a_line_of_aligned_columns():
    silent = cluster("longer", state="silent", ranks=8, states={}, owner="")
    text = write_clusters([cluster(states={"busy": 1, "lost": 1}), silent])
    head, first, second = text.splitlines()
    assert head.split() == ["name", "state", "ranks", "hosts", "owner", "age"]
    assert first.split()[:4] == ["a", "ready", "1", "busy,"]
    assert second.split()[:3] == ["longer", "silent", "8"]
    assert first.index("ready") == second.index("silent") == head.index("state")
    assert write_clusters([]) == ""


@pytest.mark.parametrize(
    ("age_s", "told"),
    [(0.2, "0 s"), (59.9, "59 s"), (60, "1 min"), (11_100, "3 h 5 min"), (187_200, "2 d 4 h")],
)
def test_an_age_has_two_units_at_most(age_s, told):
    assert write_clusters([cluster(age_s=age_s)]).rstrip().endswith(f"  {told}")
