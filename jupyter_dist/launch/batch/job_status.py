"""How each batch system is asked about a job."""

import os
import time
from collections.abc import Callable

from jupyter_dist.launch.batch.commands import CommandOutput, Run, run_query
from jupyter_dist.launch.batch.states import condor as condor_states
from jupyter_dist.launch.batch.states import pbs_sge_lsf as job_states
from jupyter_dist.launch.batch.states import slurm as slurm_states
from jupyter_dist.launch.batch.states.slurm import SlurmJob
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended

FORGOTTEN = ended(JobCause.FORGOTTEN)
_UNKNOWN_TO_SLURM = "Invalid job id"


Question = Callable[[], JobSeen]
"""Returns how one job stands; never raises."""


class SlurmQuestion:
    """Asks Slurm: its controller first, then accounting, where a site has it.

    `read_output` gives what the job has written: the nodes say there why they end it.
    """

    def __init__(self, job_id: str, read_output: Callable[[], str], run: Run = run_query) -> None:
        self._read_output = read_output
        self._job_id = job_id
        self._run = run
        self._nodes: tuple[str, ...] = ()
        """All that the job has ever had: those that go down are taken from it."""

    def ask(self) -> JobSeen:
        """Return how the job stands."""
        said = self._run(["scontrol", "--oneliner", "show", "job", self._job_id])
        job = slurm_states.read_scontrol(said.output)
        if job is not None:
            return self._judge(job)
        if said.status and _UNKNOWN_TO_SLURM not in said.error:
            return _unknown(said)
        kept = self._ask_accounting()
        if kept is not None:
            return slurm_states.judge(kept, name_user=_name_user)
        notice = slurm_states.read_notice(self._read_output())
        return FORGOTTEN if notice is None else ended(notice)

    def _judge(self, job: SlurmJob) -> JobSeen:
        if job.status == "RUNNING":
            self._nodes = tuple(dict.fromkeys((*self._nodes, *job.nodes)))
            gone = set(self._nodes) - set(job.nodes)
            return slurm_states.judge(job, down=self._ask_nodes(), gone=gone)
        if job.status == "CANCELLED":
            job = self._ask_accounting() or job
        if job.status in ("PENDING", "COMPLETED"):
            return slurm_states.judge(job, name_user=_name_user)
        notice = slurm_states.read_notice(self._read_output())
        return slurm_states.judge(job, notice=notice, name_user=_name_user)

    def _ask_nodes(self) -> dict[str, str]:
        if not self._nodes:
            return {}
        nodes = ",".join(self._nodes)
        said = self._run(["sinfo", "--noheader", "--Node", f"--nodes={nodes}", "-o", "%N|%T|%E"])
        return slurm_states.read_sinfo(said.output)

    def _ask_accounting(self) -> SlurmJob | None:
        said = self._run(["sacct", "-nPX", "-j", self._job_id, "-o", "State,ExitCode"])
        job = slurm_states.read_sacct(said.output)
        # It hears of changes a moment after the controller.
        return job if job and slurm_states.judge(job).state is JobState.ENDED else None


def ask_pbs(job_id: str, run: Run = run_query) -> JobSeen:
    """Ask PBS Pro, OpenPBS or Torque how a job stands."""
    said = run(["qstat", "-f", job_id])
    seen = job_states.read_qstat_full(said.output)
    if seen is None and _says(said, "unknown job", "has finished"):
        # Only PBS Pro and OpenPBS remember; of Torque this gives nothing that is read.
        past = run(["qstat", "-x", "-f", job_id])
        seen = job_states.read_qstat_full(past.output) or FORGOTTEN
    return seen or _unknown(said)


class SgeQuestion:
    """Asks Grid Engine, whose accounting hears of the end of a job some seconds after it.

    `limit_s` is the time limit that we gave; 0: none.
    """

    def __init__(self, job_id: str, run: Run = run_query, *, limit_s: float = 0.0) -> None:
        self._job_id = job_id
        self._limit_s = limit_s
        self._run = run
        self._is_deleted = False

    def ask(self) -> JobSeen:
        """Return how the job stands."""
        said = self._run(["qstat", "-u", _name_user(str(os.getuid()))])
        seen = job_states.read_qstat_list(said.output, self._job_id, self._limit_s)
        if seen is None:
            if said.status:
                return _unknown(said)
            past = self._run(["qacct", "-j", self._job_id])
            known = ended(JobCause.CANCELLED) if self._is_deleted else FORGOTTEN
            return job_states.read_qacct(past.output, self._limit_s) or known
        self._is_deleted = seen.state is JobState.ENDING
        if seen.cause is JobCause.ERROR:
            details = self._run(["qstat", "-j", self._job_id])
            reason = job_states.read_qstat_reason(details.output)
            return ended(JobCause.ERROR, f"Eqw: {reason}") if reason else seen
        return seen


def ask_lsf(
    job_id: str, run: Run = run_query, *, now_s: Callable[[], float] = time.time
) -> JobSeen:
    """Ask LSF how a job stands."""
    said = run(["bjobs", "-a", "-noheader", "-o", job_states.BJOBS_FIELDS, job_id])
    seen = job_states.read_bjobs(said.output, now_s())
    if seen is None and _says(said, "is not found"):
        return FORGOTTEN
    return seen or _unknown(said)


def ask_condor(job_id: str, run: Run = run_query, *, limit_s: float = 0.0) -> JobSeen:
    """Ask HTCondor how a job stands; `limit_s` is the time limit that we gave, 0: none."""
    fields = ["-af:t", *condor_states.CONDOR_FIELDS]
    said = run(["condor_q", job_id, *fields])
    if said.status:
        return _unknown(said)
    seen = condor_states.read_condor(said.output, limit_s)
    if seen is None:
        past = run(["condor_history", job_id, *fields])
        return condor_states.read_condor(past.output) or FORGOTTEN
    return seen


def _unknown(said: CommandOutput) -> JobSeen:
    return JobSeen(JobState.UNKNOWN, said.words or "the scheduler says nothing of it")


def _says(said: CommandOutput, *signs: str) -> bool:
    return any(sign in (said.error + said.output).lower() for sign in signs)


def _name_user(number: str) -> str:
    import pwd  # where there is a batch system

    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, ValueError):
        return number
