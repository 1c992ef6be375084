from types import SimpleNamespace

import pytest
from fakes.bench_report import report_of
from fakes.cluster import replace_modules

from jupyter_dist.errors import RankRaised, UsageError
from jupyter_dist.options.bench_options import plan_bench

REPORT = report_of(("reduce", 8, 1e-4, 0))


class FakeBenchView:
    """Remembers how it was made and finished."""

    made = None

    def __init__(self, cell, *, display):
        type(self).made = self
        self.cell, self.display, self.ends = cell, display, []

    def finish(self, *given):
        self.ends.append(("finish", *given))

    def fail(self, *given):
        self.ends.append(("fail", *given))


@pytest.fixture
def bench(world, monkeypatch):
    """Put fakes where the magic looks for its cell and its view."""
    fakes = {
        "cluster.bench": {
            "bench_command": lambda plan: f"measure({plan!r})",
            "read_report": lambda _result, _plan, topology: REPORT if topology else None,
        },
        "views.tables.bench_view": {"BenchView": type("BenchView", (FakeBenchView,), {})},
    }
    replace_modules(monkeypatch, fakes)
    return SimpleNamespace(
        view=fakes["views.tables.bench_view"]["BenchView"], clusters=world.clusters
    )


def test_a_bench_runs_on_every_rank_and_its_report_is_shown(run, bench):
    run("%dist_start -n 3")
    assert run("%dist_bench").success
    (call,) = bench.clusters["demo"].calls
    assert (call.code, call.ranks) == (f"measure({plan_bench()!r})", None)
    assert call.watcher is bench.view.made
    assert bench.view.made.cell.asked == {"world_size": 3}
    ((how, result, report),) = bench.view.made.ends
    assert (how, len(result), report) == ("finish", 3, REPORT)


def test_every_option_reaches_the_plan(run, bench):
    run("%dist_start")
    assert run("%dist_bench --ops all_reduce,reduce --max 1MiB --timeout 5m --no-check").success
    ops = ["all_reduce", "reduce"]
    plan = plan_bench(ops=ops, max_bytes=1 << 20, check=False, timeout_s=300.0)
    assert bench.clusters["demo"].calls[0].code == f"measure({plan!r})"


def test_the_report_can_be_kept(run, shell, bench):
    run("%dist_start")
    assert run("%dist_bench -o speeds").success
    assert shell.user_ns["speeds"] is REPORT


def test_what_cannot_be_measured_is_answered_in_one_line(run, bench):
    run("%dist_start")
    result = run("%dist_bench --min 2M --max 1M")
    assert isinstance(result.error_in_exec, UsageError)
    (text,) = result.text.strip().splitlines()
    assert "2 MiB to 1 MiB" in text
    assert bench.clusters["demo"].calls == []


def test_a_rank_that_raises_is_the_error_of_the_cell(run, bench):
    run("%dist_start -n 2")
    bench.clusters["demo"].statuses[1] = "raised"
    result = run("%dist_bench -o speeds")
    assert isinstance(result.error_in_exec, RankRaised)
    ((how, ranks, raised),) = bench.view.made.ends
    assert (how, len(ranks), raised) == ("fail", 2, 1)


def test_a_bench_that_is_given_up_says_so(run, bench):
    run("%dist_start -n 2")
    bench.clusters["demo"].problem = KeyboardInterrupt()
    assert not run("%dist_bench").success
    assert bench.view.made.ends == [("fail", None)]
