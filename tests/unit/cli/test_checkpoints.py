import sys
from types import ModuleType

import pytest

from jupyter_dist.cli.__main__ import main
from jupyter_dist.cluster import checkpoints
from jupyter_dist.cluster.healing import Healed
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.protocol.messages import ErrorInfo

FAILED = ErrorInfo("CheckpointNotFound", "/d has no checkpoint", ("nothing is there",))


class FakeCluster:
    """Two ranks; remembers what they were asked to run."""

    name = "night"
    world_size = 2
    notes = ()
    status = "ok"

    @classmethod
    def visit(cls, name=None):
        cls.ran.append(name)
        return cls()

    @classmethod
    def start(cls, **_options):
        return cls()

    def run(self, code, *, watcher):
        self.ran.append(code)
        error = FAILED if self.status == "raised" else None
        return SpmdResult([RankResult(rank=r, status=self.status, error=error) for r in range(2)])

    def heal(self, _ranks, *, on_stage):
        return Healed(5, {1: "nodeB"}, (), (), {})

    def checkpoints(self, directory):
        return f"the table of {directory}"


@pytest.fixture
def cluster(monkeypatch):
    module = ModuleType("jupyter_dist.cluster.cluster")
    module.Cluster = type("Cluster", (FakeCluster,), {"ran": []})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.Cluster


@pytest.fixture
def dist(cluster, capsys):
    """Run `jupyter dist …`; gives (exit status, stdout, stderr)."""

    def run(*argv):
        status = main(argv)
        return status, *capsys.readouterr()

    return run


def saving(*given, **options):
    usual = {"directory": None, "everything": False, "keep_last": None, "wait": True, "cache": None}
    return checkpoints.save_cell(checkpoints.saving(*given, **{**usual, **options}))


def restoring(*given, **options):
    return checkpoints.restore_cell(checkpoints.restoring(*given, **options))


def test_variables_are_saved_and_restored_on_the_cluster_that_is_named(dist, cluster):
    assert dist("checkpoint", "run1", "w", "step", "--dir", "/d", "--name", "night")[0] == 0
    assert cluster.ran == ["night", saving("run1", "w step", directory="/d")]
    cluster.ran.clear()
    assert dist("restore", "run1", "--step", "2", "--objects")[0] == 0
    assert cluster.ran == [None, restoring("run1", step=2, objects=True)]


def test_what_fails_has_status_1_and_the_reason(dist, cluster):
    cluster.status = "raised"
    status, _, err = dist("restore", "run1")
    assert (status, "/d has no checkpoint" in err) == (1, True)


def test_what_cannot_be_meant_has_status_2_and_asks_nobody(dist, cluster):
    assert dist("checkpoint", "run1", "w", "--all")[0] == 2
    assert dist("checkpoint")[0] == 2
    assert dist("restore")[0] == 2
    assert cluster.ran == []


def test_checkpoints_are_listed_as_this_machine_or_a_cluster_sees_them(dist, cluster, tmp_path):
    assert dist("checkpoints", "--dir", str(tmp_path)) == (0, f"no checkpoint in {tmp_path}\n", "")
    assert cluster.ran == []
    assert dist("checkpoints", "--dir", "/d", "--name", "night")[1] == "the table of /d\n"


def test_a_healing_may_go_back_to_a_checkpoint(dist, cluster):
    status, out, _ = dist("heal", "night", "--resume", "/d")
    assert status == 0
    assert out.startswith("replaced rank 1 on nodeB")
    assert cluster.ran == ["night", restoring(None, directory="/d")]


def test_a_start_may_go_on_from_a_checkpoint(dist, cluster):
    assert dist("start", "-n", "2", "--resume", "/d")[0] == 0
    assert cluster.ran == [restoring(None, directory="/d")]


def test_a_start_that_restores_nothing_says_that_the_cluster_runs(dist, cluster):
    cluster.status = "raised"
    status, out, err = dist("start", "-n", "2", "--resume", "/d")
    assert status == 1
    assert "jupyter dist stop night" in out
    assert "cluster night runs, and nothing was restored" in err
    assert "/d has no checkpoint" in err


def test_a_specification_has_no_checkpoint_to_resume_from(dist):
    assert dist("spec", "--resume", "/d")[0] == 2
