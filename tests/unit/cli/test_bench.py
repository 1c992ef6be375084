import sys
from types import ModuleType

import pytest
from fakes.bench_report import report_of

from jupyter_dist.cli.__main__ import main
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.model.bench_plan import plan_bench
from jupyter_dist.protocol.messages import ErrorInfo


class FakeCluster:
    """Remembers what it ran; ends as it is told to."""

    world_size = 2
    ran: list
    status = "ok"

    def __init__(self, name):
        self.ran.append(name)

    @classmethod
    def visit(cls, name):
        return cls(name)

    def run(self, code, *, watcher):
        self.ran.append(code)
        watcher.on_tick()
        error = None if self.status == "ok" else ErrorInfo("ValueError", "no")
        return SpmdResult([RankResult(rank=0, status=self.status, error=error)])

    def topology(self):
        return "topology"


@pytest.fixture
def cluster(monkeypatch):
    """Put fakes where the command looks; `report` is what it will read."""
    cluster = type(
        "Cluster", (FakeCluster,), {"ran": [], "report": report_of(("reduce", 8, 1.0, 0))}
    )
    fakes = {
        "cluster.cluster": {"Cluster": cluster},
        "cluster.bench": {
            "bench_cell": lambda plan: plan,
            "read_report": lambda *_: cluster.report,
        },
    }
    for name, members in fakes.items():
        module = ModuleType(f"jupyter_dist.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return cluster


def test_a_bench_writes_its_tables(cluster, capsys):
    assert main(["bench", "demo", "--ops", "reduce", "--max", "1M", "--check"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("2 ranks on a · ring · float32")
    assert "  8 B  " in out
    assert err == ""
    assert cluster.ran == ["demo", plan_bench(ops="reduce", max_bytes="1M")]


def test_a_bench_of_the_only_cluster_needs_no_name(cluster):
    assert main(["bench"]) == 0
    assert cluster.ran == [None, plan_bench()]


def test_wrong_results_make_status_one(cluster, capsys):
    cluster.report = report_of(("reduce", 8, 1.0, 5))
    assert main(["bench"]) == 1
    assert "✗ reduce: wrong results on rank 1" in capsys.readouterr().out


def test_a_rank_that_raises_makes_status_one(cluster, capsys):
    cluster.status = "raised"
    assert main(["bench"]) == 1
    assert capsys.readouterr().err == "jupyter dist: rank 0: ValueError: no\n"


@pytest.mark.parametrize("option", ["--ops=x", "--min=x", "--factor=1", "--dtype=x", "--speed=1"])
def test_what_cannot_be_meant_makes_status_two(cluster, capsys, option):
    assert main(["bench", option]) == 2
    assert capsys.readouterr().err.startswith("jupyter dist: ")
    assert cluster.ran == []
