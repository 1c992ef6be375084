"""What is wanted of a batch system."""

from pathlib import Path

import msgspec

from jupyter_dist.model.spec.batch import BatchSpec
from jupyter_dist.model.spec.cluster_spec import ClusterSpec


class BatchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a job needs to know; no secret is part of it."""

    cluster: str
    spec: BatchSpec
    join_path: Path
    """The file with which the agents join, in the job's own directory; every node reads it."""
    has_coordinator: bool = False
    """The first node alone runs something: the coordinator, which reads that file."""
    python: str = ""
    """Interpreter or environment directory on the nodes; empty: the same path as here."""
    setup: tuple[str, ...] = ()
    """Shell commands before Python starts, in a login shell."""
    start_method: str = "auto"
    slots: int = 0
    """Engines on each node; 0: each agent finds out."""
    directory: Path
    """Seen by all nodes; the job's own directory lies in it."""
    log_dir: Path
    """The coordinator's own, for what only this machine needs."""

    @property
    def job_name(self) -> str:
        """As the scheduler lists it."""
        return self.spec.job_name or f"jupyter-dist-{self.cluster}"

    @property
    def cores(self) -> int:
        """Cores to ask for on each node: one for each engine."""
        return max(1, self.slots)


def order_for(
    spec: ClusterSpec, join_path: Path, log_dir: Path, *, has_coordinator: bool = False
) -> BatchOrder:
    """Return what the job of this cluster needs to know."""
    assert spec.batch is not None
    host = spec.hosts[0]
    return BatchOrder(
        cluster=spec.name,
        spec=spec.batch,
        join_path=join_path,
        python=host.python,
        setup=host.setup,
        start_method=spec.start_method,
        slots=host.slots,
        directory=join_path.parent.parent,
        log_dir=log_dir,
        has_coordinator=has_coordinator,
    )
