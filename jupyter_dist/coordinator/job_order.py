"""Makes of a specification the job that starts its agents."""

from pathlib import Path

from jupyter_dist.coordinator.job_watch import JobWatch
from jupyter_dist.launch.batch.order import BatchJob, BatchOrder
from jupyter_dist.model.batch import BATCH_TITLES
from jupyter_dist.model.spec import ClusterSpec


def make_job_watch(spec: ClusterSpec, log_dir: Path) -> JobWatch | None:
    """Make the watch over the job of this cluster, submitted once it is started; None: no job.

    `log_dir` is the coordinator's own.
    """
    batch = spec.batch
    if batch is None:
        return None
    host = spec.hosts[0]

    def start(join_path: Path) -> BatchJob:
        # Late: it brings ipyparallel, which no other start needs.
        from jupyter_dist.launch.batch.submission import submit

        return submit(
            BatchOrder(
                cluster=spec.name,
                spec=batch,
                join_path=join_path,
                python=host.python,
                setup=host.setup,
                start_method=spec.start_method,
                slots=host.slots,
                directory=join_path.parent.parent,
                log_dir=log_dir,
            )
        )

    return JobWatch(start, f"the {BATCH_TITLES[batch.system]} job")
