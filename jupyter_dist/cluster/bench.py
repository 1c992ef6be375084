"""Measures the collectives of a cluster: a cell that every rank runs, and what came of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spmd import CellWatcher
from jupyter_dist.errors import DistError
from jupyter_dist.model.bandwidth import paths_of
from jupyter_dist.model.bench import REPORT_MIME, BenchReport, RankBench, merge
from jupyter_dist.model.bench_plan import (
    DEFAULT_DTYPE,
    DEFAULT_FACTOR,
    DEFAULT_MIN_BYTES,
    DEFAULT_TIMEOUT_S,
    BenchPlan,
    plan_bench,
)
from jupyter_dist.model.topology import Topology

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session


def run_bench(  # noqa: PLR0913  (each is an option of %dist_bench)
    cluster: "Session",
    ops: str | Sequence[str] | None = None,
    *,
    min_bytes: int | str = DEFAULT_MIN_BYTES,
    max_bytes: int | str | None = None,
    factor: int = DEFAULT_FACTOR,
    dtype: str = DEFAULT_DTYPE,
    check: bool = True,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    watcher: CellWatcher | None = None,
) -> BenchReport:
    """Measure collectives on all ranks as nccl-tests does, and check their results.

    `ops` are names, or `all`. Sizes (also as `64M`) go from `min_bytes` up by `factor`; the
    largest is 64 MiB when nobody says, and 1 GiB with nccl. `timeout_s` is for each collective.

    Raises UsageError for what cannot be measured; CellFailed when a rank raised or was lost.
    """
    plan = plan_bench(
        ops=ops,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        factor=factor,
        dtype=dtype,
        check=check,
        timeout_s=timeout_s,
    )
    result = cluster.run(bench_cell(plan), watcher=watcher)
    result.raise_first()
    return read_report(result, plan, cluster.topology())


def bench_cell(plan: BenchPlan) -> str:
    """Write the cell that measures; it leaves no name behind on the ranks."""
    text = msgspec.json.encode(plan).decode()
    module = "__import__('jupyter_dist.engine.benchmark', fromlist=['measure'])"
    return f"{module}.measure(comm, {text!r})"


def read_report(result: SpmdResult, plan: BenchPlan, topology: Topology) -> BenchReport:
    """Put together what all ranks have displayed; raises DistError when one said nothing."""
    told = [_told(result, rank) for rank in range(len(result))]
    return BenchReport(
        kind=told[0].kind,
        world_size=len(told),
        hosts=tuple(host.name for host in topology.hosts),
        paths=paths_of(topology, told[0].kind),
        points=merge([each.points for each in told], plan.dtype, len(told)),
        versions=told[0].versions,
    )


def _told(result: SpmdResult, rank: int) -> RankBench:
    for output in result.rank(rank).displays:
        if REPORT_MIME in output.data:
            return msgspec.convert(output.data[REPORT_MIME], RankBench)
    raise DistError(f"rank {rank} ended well, but has not told what it measured.")
