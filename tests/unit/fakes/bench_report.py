"""Reports of benchmarks, made up."""

from jupyter_dist.model.bench.bandwidth import RankPath
from jupyter_dist.model.bench.measurements import BenchReport, Measured, merge


def report_of(
    *points, world_size=2, wrong_rank=1, hosts=("a",), paths=None, kind="ring", dtype="float32"
):
    """A report of points, each (op, nbytes, median_s, wrong elements on `wrong_rank`)."""
    each = [
        [
            Measured(
                op, nbytes, 5, median_s, median_s, median_s, wrong and wrong * (rank == wrong_rank)
            )
            for op, nbytes, median_s, wrong in points
        ]
        for rank in range(world_size)
    ]
    return BenchReport(
        kind=kind,
        world_size=world_size,
        hosts=hosts,
        paths=paths or (RankPath("a"),) * world_size,
        points=merge(each, dtype, world_size),
        versions={"python": "3.11.7", "numpy": "2.4.6"},
    )
