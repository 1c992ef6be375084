"""Agents that a batch system starts: what is asked of it, and what it tells of its job."""

from enum import StrEnum

import msgspec

from jupyter_dist.errors import UsageError

ORCHESTRATORS = ("ray", "dask", "kubernetes")
"""Systems that have nodes at hand, and are asked through a client of their own."""
BATCH_SYSTEMS = ("slurm", "pbs", "sge", "lsf", "htcondor", "mpi", *ORCHESTRATORS)
WITH_COORDINATOR = ("slurm", "pbs", "lsf")
"""Systems whose jobs may have the coordinator in them: one job, whose script its first node runs,
and from where programs can be started on the others."""
BATCH_TITLES = {
    "slurm": "Slurm",
    "pbs": "PBS",
    "sge": "SGE",
    "lsf": "LSF",
    "htcondor": "HTCondor",
    "mpi": "mpiexec",
    "ray": "Ray",
    "dask": "Dask",
    "kubernetes": "Kubernetes",
}
"""How each of them is called in a sentence."""
VARIABLES_OF_MPI = ("PMI_", "PMI2_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "MPI_LOCAL")
"""How variables begin that mpiexec and srun leave to what they start, to make it a part of that.

Those with HYDRA_ are none of them: they say how a user wants mpiexec to start programs.
"""
SHORTEST_TIME_LIMIT_S = 60.0
"""Schedulers count minutes, and a start alone takes seconds of it."""
_WORKERS = ("ray", "dask")
"""Those that have processes on their nodes, which start agents with their own Python."""
_WITHOUT_QUEUES = ("htcondor", "mpi", *_WORKERS)
_WITHOUT_TIME_LIMIT = ("mpi", *_WORKERS)


class BatchSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job of a batch system whose nodes shall each run one agent."""

    system: str
    """One of BATCH_SYSTEMS."""
    nodes: int
    """Agents to start, one on each node."""
    is_within: bool = False
    """Use the allocation that this process is in (srun, mpiexec); submit nothing."""
    arguments: tuple[str, ...] = ()
    """For sbatch, qsub, bsub, srun or mpiexec, handed over as they stand."""
    template: str = ""
    """Text of the user's job script; empty: ours."""
    job_name: str = ""
    """As the scheduler lists it; empty: jupyter-dist-<cluster>."""
    queue: str = ""
    """Partition (Slurm) or queue (PBS, SGE, LSF); empty: the scheduler's default."""
    account: str = ""
    """Whom the scheduler charges; empty: its default."""
    time_limit_s: float = 0.0
    """After which the scheduler ends the job; 0: what the queue has."""
    scheduler: str = ""
    """Address of Ray or of Dask's scheduler, or a context of kubectl; empty: the default."""
    directory: str = ""
    """A directory that all nodes see, for script, log and join file; empty: beside the
    connection file."""


class JobState(StrEnum):
    """What a scheduler says of a job."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    """It is just being ended, and its nodes are not free yet."""
    ENDED = "ended"
    UNKNOWN = "unknown"
    """It could not be asked."""


class JobCause(StrEnum):
    """Why a job has ended, in Slurm's words; `words` has those of other schedulers."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    DEADLINE = "DEADLINE"
    PREEMPTED = "PREEMPTED"
    REQUEUED = "REQUEUED"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    HELD = "held"
    """Before it ran; it stays in the queue."""
    ERROR = "Eqw"
    """Its start went wrong on a node; it stays in the queue."""
    FORGOTTEN = "no longer known to the scheduler"
    OTHER = ""

    @property
    def leaves_queue(self) -> bool:
        """The scheduler is done with the job: nothing is left to be cancelled."""
        return self not in (JobCause.HELD, JobCause.ERROR, JobCause.FORGOTTEN)


class JobSeen(msgspec.Struct, frozen=True):
    """A job as its scheduler described it at one moment."""

    state: JobState
    words: str = ""
    """The scheduler's own, short, for people: `PENDING: Resources`, `RUNNING`, `CANCELLED by
    root`, `TIMEOUT`; of a job that is being ended only why."""
    ends_at_s: float = 0.0
    """When its time limit ends it, in seconds since 1970; 0: never, or not known."""
    lost_nodes: tuple[str, ...] = ()
    """Nodes of the job that the scheduler knows to be down."""
    lost_words: str = ""
    """What it says of them, as `node a is down (Not responding)`; empty: no more than that."""
    cause: JobCause | None = None
    """Why it has ended, or is being ended; None: it goes on, or that is not known yet."""

    @property
    def text(self) -> str:
        """Return all that is said of it, on one line."""
        if self.state is JobState.ENDING:
            return f"COMPLETING: {self.words}" if self.words else "COMPLETING"
        return f"{self.words}; {self.lost_words}" if self.lost_words else self.words


def ended(cause: JobCause, words: str = "") -> JobSeen:
    """Return a job that has ended; without words, those of the cause say how."""
    return JobSeen(JobState.ENDED, words or str(cause), cause=cause)


def ended_with(exit_code: int | str) -> JobSeen:
    """Return a job that has ended on its own, with this exit code."""
    if str(exit_code) == "0":
        return ended(JobCause.COMPLETED)
    return ended(JobCause.FAILED, f"FAILED (exit code {exit_code})")


def ending(cause: JobCause | None = None, words: str = "") -> JobSeen:
    """Return a job that is just being ended; None: its scheduler does not say why."""
    return JobSeen(JobState.ENDING, words or str(cause or ""), cause=cause)


def check_batch(batch: BatchSpec, most_nodes: int) -> None:
    """Raise UsageError for the first thing that cannot be meant."""
    if batch.system not in BATCH_SYSTEMS:
        raise UsageError(
            f"batch system {batch.system!r} is unknown. Accepted: {', '.join(BATCH_SYSTEMS)}."
        )
    if not 0 < batch.nodes <= most_nodes:
        raise UsageError(
            f"{batch.nodes} nodes are not accepted: a job has 1-{most_nodes}, with one agent on "
            "each of them."
        )
    _check_known(batch)
    if batch.time_limit_s and not batch.time_limit_s >= SHORTEST_TIME_LIMIT_S:
        raise UsageError(
            f"time limit {batch.time_limit_s:g} s is too short: schedulers count minutes. Give "
            "1m or more, for example 2h."
        )
    _check_texts(batch)


def _check_known(batch: BatchSpec) -> None:
    """Raise UsageError for a wish that a system knows nothing of."""
    submitted = tuple(set(BATCH_SYSTEMS) - set(ORCHESTRATORS))
    for option, value, systems in (
        ("queue", batch.queue, _WITHOUT_QUEUES),
        ("account", batch.account, ("mpi", *ORCHESTRATORS)),
        ("time limit", batch.time_limit_s, _WITHOUT_TIME_LIMIT),
        ("template", batch.template, _WORKERS),
        ("job directory", batch.directory, ORCHESTRATORS),
        ("scheduler", batch.scheduler, submitted),
    ):
        if value and batch.system in systems:
            raise UsageError(
                f"{option} {value!r} means nothing to {BATCH_TITLES[batch.system]}, which has "
                "none. Leave it out; what only your site knows can be said by --launcher-arg."
            )
    if batch.system in ORCHESTRATORS:
        read_resources(batch)


def read_resources(batch: BatchSpec) -> dict[str, str]:
    """Return what an orchestrator is to give on each node, by name; raises UsageError.

    Kubernetes has amounts with units, all others numbers.
    """
    found = {}
    for argument in batch.arguments:
        name, _, amount = argument.partition("=")
        if not name or not amount or (batch.system in _WORKERS and not _is_amount(amount)):
            example = "nvidia.com/gpu=8" if batch.system == "kubernetes" else "GPU=8"
            raise UsageError(
                f"launcher argument {argument!r} is not accepted: {BATCH_TITLES[batch.system]} "
                "takes what each node is to give, as NAME=AMOUNT. Write it as "
                f"--launcher-arg={example}."
            )
        found[name] = amount
    return found


def _is_amount(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def _check_texts(batch: BatchSpec) -> None:
    """Raise UsageError for texts that would end up as other lines of a job script."""
    for option, value in (
        ("job name", batch.job_name),
        ("queue", batch.queue),
        ("account", batch.account),
        ("scheduler", batch.scheduler),
        ("job directory", batch.directory),
    ):
        if any(character < " " for character in value):
            raise UsageError(f"{option} {value!r} is not accepted: it has to stand on one line.")
    for argument in batch.arguments:
        if not argument or any(character < " " for character in argument):
            raise UsageError(
                f"launcher argument {argument!r} is not accepted. Give one argument, on one line, "
                "as --launcher-arg=--constraint=gpu."
            )
