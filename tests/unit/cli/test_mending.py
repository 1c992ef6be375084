import sys
from types import ModuleType

import pytest

from jupyter_dist.cli.__main__ import main
from jupyter_dist.cluster.healing import Healed, Shrunken
from jupyter_dist.errors import HealFailed


class FakeCluster:
    """Four ranks; remembers what it was asked."""

    world_size = 4
    asked: list
    busy = (0, 2)

    @classmethod
    def visit(cls, name=None):
        cls.asked.append(name)
        return cls()

    def interrupt(self, ranks):
        self.asked.append(ranks)
        return self.busy

    def heal(self, ranks, *, on_stage):
        self.asked.append(ranks)
        on_stage("waiting for rank 2 to end")
        if ranks == (3,):
            raise HealFailed("rank 3 has no place.")
        return Healed(
            5, {2: "nodeB"}, ("In[1]",), ("setup cell In[1] on rank 2: boom",), {"x": (2,)}
        )

    def shrink(self, *, on_stage):
        on_stage("waits: rank 0 is still busy")
        return Shrunken(3, 3, {0: 0, 2: 1, 3: 2})


@pytest.fixture
def cluster(monkeypatch):
    module = ModuleType("jupyter_dist.cluster.cluster")
    module.Cluster = type("Cluster", (FakeCluster,), {"asked": []})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.Cluster


@pytest.fixture
def dist(cluster, capsys):
    """Run `jupyter dist …`; gives (exit status, stdout, stderr)."""

    def run(*argv):
        status = main(argv)
        return status, *capsys.readouterr()

    return run


def test_what_runs_is_interrupted(dist, cluster):
    assert dist("interrupt", "demo", "--ranks", "0,2-3") == (0, "interrupted ranks 0,2\n", "")
    assert cluster.asked == ["demo", (0, 2, 3)]
    cluster.busy = ()
    assert dist("interrupt")[1] == "nothing was running\n"


def test_lost_ranks_are_replaced_and_what_they_lack_is_told(dist, cluster):
    status, out, _ = dist("heal", "demo")
    assert status == 0
    assert cluster.asked == ["demo", None]
    assert out.splitlines()[:5] == [
        "waiting for rank 2 to end",
        "replaced rank 2 on nodeB; all ranks are in generation 5",
        "ran In[1] there (%%spmd --setup)",
        "setup cell In[1] on rank 2: boom",
        "rank 2 lacks x",
    ]


def test_healing_that_fails_gives_the_reason_and_status_1(dist):
    status, _, err = dist("heal", "--ranks", "3")
    assert (status, "rank 3 has no place." in err) == (1, True)


def test_ranks_that_are_not_there_cannot_be_meant(dist):
    assert dist("heal", "--ranks", "7")[0] == 2


def test_the_cluster_goes_on_without_lost_ranks(dist):
    assert dist("shrink", "demo") == (
        0,
        (
            "waits: rank 0 is still busy\n"
            "the cluster has ranks 0-2 in generation 3; of the old numbers 2 is 1, 3 is 2 now\n"
        ),
        "",
    )
