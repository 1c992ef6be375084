"""The job whose nodes are the hosts of a cluster, of a batch system or an orchestrator."""

from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.model.spec.batch import BATCH_TITLES, ORCHESTRATORS
from jupyter_dist.model.spec.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from jupyter_dist.launch.batch.jobs import BatchJob


def make_job_watch(spec: ClusterSpec, log_dir: Path) -> JobWatch | None:
    """Make the watch over the job of this cluster, submitted once it is started; None: no job.

    `log_dir` is the coordinator's own.
    """
    batch = spec.batch
    if batch is None:
        return None

    def start(join_path: Path) -> "BatchJob":
        from jupyter_dist.launch.batch.order import order_for

        order = order_for(spec, join_path, log_dir)
        if batch.system in ORCHESTRATORS:
            from jupyter_dist.launch.orchestrators.job import OrchestratedJob

            return OrchestratedJob(order)
        # Late: it brings ipyparallel, which no other start needs.
        from jupyter_dist.launch.batch.submission import submit

        return submit(order)

    return JobWatch(start, f"the {BATCH_TITLES[batch.system]} job")
