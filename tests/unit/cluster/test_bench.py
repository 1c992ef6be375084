import pytest

from jupyter_dist.cluster.bench import bench_command, read_report, run_bench
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.errors import DistError, RankRaised, UsageError
from jupyter_dist.model.bench.bench_plan import BenchPlan
from jupyter_dist.model.bench.measurements import PROGRESS_MIME, Measured, RankBench
from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology
from jupyter_dist.options.bench_options import plan_bench
from jupyter_dist.protocol.commands import BENCH
from jupyter_dist.protocol.messages import ErrorInfo, Output

HOSTS = tuple(
    HostView(
        name=name,
        interface="eth0",
        interface_mbps=mbps,
        engines=(EngineView(rank=rank, local_rank=0),),
    )
    for rank, (name, mbps) in enumerate({"a": 8000, "b": 4000}.items())
)
TOPOLOGY = Topology(cluster="x", hosts=HOSTS)


def told(rank, wrong=0):
    """What a rank ends with when it has measured one point."""
    point = Measured("broadcast", 4000, 10, 1e-5, 1e-5, 1e-5, wrong)
    bench = RankBench("ring", (point,), {"numpy": f"2.{rank}"})
    progress = Output("display", data={PROGRESS_MIME: {"op": "broadcast", "nbytes": 4000}})
    report = BENCH.write_report(bench)
    return RankResult(rank=rank, status="ok", displays=(progress,), report=report)


class FakeSession:
    """Runs nothing; gives what it was made with."""

    def __init__(self, *results):
        self._results = results
        self.ran = []

    def run_command(self, command, *, watcher):
        self.ran.append((command, watcher))
        return SpmdResult(self._results)

    def topology(self):
        return TOPOLOGY


def test_the_command_carries_the_plan():
    plan = plan_bench(ops="all_reduce", min_bytes=16)
    assert BENCH.read_request(bench_command(plan)) == plan


def test_a_report_is_put_together_from_all_ranks():
    report = run_bench(FakeSession(told(0), told(1, wrong=3)), "broadcast", watcher="me")
    (point,) = report.points
    assert (point.wrong, point.wrong_ranks, point.dtype) == (3, (1,), "float32")
    assert point.busbw == pytest.approx(0.4)
    assert (report.kind, report.world_size, report.hosts) == ("ring", 2, ("a", "b"))
    assert (report.promise.gb_per_s, report.promise.words) == (0.5, "eth0, 4 Gbit/s")
    assert report.versions == {"numpy": "2.0"}


def test_a_rank_that_raised_raises():
    failed = RankResult(rank=1, status="raised", error=ErrorInfo("ValueError", "no"))
    with pytest.raises(RankRaised, match="rank 1: ValueError: no"):
        run_bench(FakeSession(told(0), failed))


def test_what_cannot_be_measured_is_refused_before_any_rank_runs():
    session = FakeSession(told(0))
    with pytest.raises(UsageError, match="ops 'all_recude'"):
        run_bench(session, "all_recude")
    assert session.ran == []


def test_a_rank_that_has_told_nothing_is_named():
    silent = RankResult(rank=1, status="ok")
    with pytest.raises(DistError, match=r"^rank 1 "):
        read_report(SpmdResult([told(0), silent]), BenchPlan(), TOPOLOGY)
