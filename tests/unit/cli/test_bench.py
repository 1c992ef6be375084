import json
from types import SimpleNamespace

import pytest
from fakes.bench_report import report_of
from fakes.cluster import replace_modules

from jupyter_dist.options.bench_options import plan_bench


@pytest.fixture
def bench(demo, monkeypatch):
    """Have the command read this report."""
    read = SimpleNamespace(report=report_of(("reduce", 8, 1.0, 0)))
    members = {"bench_command": lambda plan: plan, "read_report": lambda *_: read.report}
    replace_modules(monkeypatch, {"cluster.bench": members})
    return read


def test_a_bench_writes_its_tables(dist, demo, bench):
    status, out, err = dist("bench", "demo", "--ops", "reduce", "--max", "1M", "--check")
    assert (status, err) == (0, "")
    assert out.startswith("2 ranks on a · ring · float32")
    assert "  8 B  " in out
    assert dist("bench")[0] == 0
    plans = [plan_bench(ops="reduce", max_bytes="1M"), plan_bench()]
    assert [call.code for call in demo.calls] == plans


def test_wrong_results_make_status_one(dist, bench):
    bench.report = report_of(("reduce", 8, 1.0, 5))
    status, out, err = dist("bench", "--json")
    assert (status, json.loads(out)["world_size"], "✗ reduce" in err) == (1, 2, True)
    status, out, _ = dist("bench")
    assert status == 1
    assert [line for line in out.splitlines() if "✗ reduce" in line and "rank 1" in line]


def test_a_rank_that_raises_makes_status_one(dist, demo, bench):
    demo.statuses = ["raised", "ok"]
    status, _, err = dist("bench")
    assert status == 1
    assert err.startswith("jupyter dist: rank 0: ZeroDivisionError: ")


@pytest.mark.parametrize("option", ["--ops=x", "--factor=1", "--speed=1"])
def test_what_cannot_be_meant_makes_status_two(dist, demo, bench, option):
    status, _, err = dist("bench", option)
    assert status == 2
    assert err.startswith("jupyter dist: ")
    assert demo.calls == []
