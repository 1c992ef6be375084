"""What is wanted of a batch system, and what it gives: a job whose nodes run one agent each."""

from pathlib import Path
from typing import Protocol

import msgspec

from jupyter_dist.launch.base import Failure
from jupyter_dist.model.batch import BatchSpec, JobSeen


class BatchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a job needs to know; no secret is part of it."""

    cluster: str
    spec: BatchSpec
    join_path: Path
    """The file with which the agents join, in the job's own directory; every node reads it."""
    python: str = ""
    """Interpreter or environment directory on the nodes; empty: the same path as here."""
    setup: tuple[str, ...] = ()
    """Shell commands before Python starts, in a login shell."""
    start_method: str = "fork"
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


class BatchJob(Protocol):
    """A job that was submitted, or a program within an allocation that runs the agents."""

    @property
    def label(self) -> str:
        """What it is called in sentences, as `Slurm job 12` or `mpiexec (pid 77)`."""

    def look(self) -> JobSeen:
        """Ask the scheduler; never raises, and blocks for a few seconds at most."""

    def explain(self) -> Failure | None:
        """Say why agents of it do not come, as far as its output tells; None: it does not."""

    def last_lines(self) -> str:
        """Give the last lines of its output, as far as it can be read here."""

    def cancel(self) -> str:
        """End it; harmless when it has ended. Blocks for a few seconds at most.

        Says why that did not work, and what does; empty: it did.
        """

    def end(self) -> str:
        """See that it is gone, and remove its files; says why it may still be there."""
