"""Measures the collectives of a cluster: a command to every rank, and what came of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from jupyter_dist.cluster.result import SpmdResult, read_reports
from jupyter_dist.cluster.spmd import CellWatcher
from jupyter_dist.model.bench.bandwidth import paths_of
from jupyter_dist.model.bench.bench_plan import BenchPlan
from jupyter_dist.model.bench.measurements import BenchReport, merge
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.options.bench_options import MeasureOptions, plan_bench
from jupyter_dist.protocol.commands import BENCH
from jupyter_dist.protocol.messages import Command

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session


def run_bench(
    cluster: "Session",
    ops: str | Sequence[str] | None = None,
    *,
    watcher: CellWatcher | None = None,
    **options: Unpack[MeasureOptions],
) -> BenchReport:
    """Measure collectives on all ranks as nccl-tests does, and check their results.

    `ops` are names, or `all`. Sizes (also as `64M`) go from `min_bytes` up by `factor`; the
    largest is 64 MiB where nothing else is said, and 1 GiB with nccl. `timeout_s` is for each
    collective.

    Raise UsageError for what cannot be measured; CellFailed when a rank raised or was lost.
    """
    plan = plan_bench(ops=ops, **options)
    result = cluster.run_command(bench_command(plan), watcher=watcher)
    result.raise_first()
    return read_report(result, plan, cluster.topology())


def bench_command(plan: BenchPlan) -> Command:
    """Return the command that measures."""
    return BENCH.order(plan, "%dist_bench")


def read_report(result: SpmdResult, plan: BenchPlan, topology: Topology) -> BenchReport:
    """Return the measurements of all ranks as one report. Raise DistError when one is missing."""
    told = list(read_reports(BENCH, result).values())
    return BenchReport(
        kind=told[0].kind,
        world_size=len(told),
        hosts=tuple(host.name for host in topology.hosts),
        paths=paths_of(topology, told[0].kind),
        points=merge([each.points for each in told], plan.dtype, len(told)),
        versions=told[0].versions,
    )
