"""How each batch system is asked about a job."""

import os
import pwd
from collections.abc import Callable, Iterable
from typing import Protocol

from jupyter_dist.launch.batch.commands import Run, Said, run_query
from jupyter_dist.model import condor_states, job_states, slurm_states
from jupyter_dist.model.batch import JobSeen, JobState
from jupyter_dist.model.slurm_states import SlurmJob

FORGOTTEN = JobSeen(JobState.ENDED, "no longer known to the scheduler")
_UNKNOWN_TO_SLURM = "Invalid job id"


class Question(Protocol):
    """Asks about one job."""

    def ask(self) -> JobSeen:
        """Say how the job stands; never raises."""


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
        """Say how the job stands."""
        said = self._run(["scontrol", "--oneliner", "show", "job", self._job_id])
        job = slurm_states.read_scontrol(said.output)
        if job is not None:
            return self._judge(job)
        if said.status and _UNKNOWN_TO_SLURM not in said.error:
            return _unknown(said)
        kept = self._ask_accounting()
        if kept is not None:
            return slurm_states.judge(kept, name_user=_name_user)
        return _by_notice(self._read_output())

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


class PbsQuestion:
    """Asks PBS Pro, OpenPBS or Torque."""

    def __init__(self, job_id: str, run: Run = run_query) -> None:
        self._job_id = job_id
        self._run = run

    def ask(self) -> JobSeen:
        """Say how the job stands."""
        said = self._run(["qstat", "-f", self._job_id])
        seen = job_states.read_qstat_full(said.output)
        if seen is None and _is_forgotten(said, ("Unknown Job", "has finished")):
            # Only PBS Pro and OpenPBS remember; of Torque this gives nothing that is read.
            past = self._run(["qstat", "-x", "-f", self._job_id])
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
        """Say how the job stands."""
        said = self._run(["qstat", "-u", _name_user(str(os.getuid()))])
        seen = job_states.read_qstat_list(said.output, self._job_id, self._limit_s)
        if seen is None:
            if said.status:
                return _unknown(said)
            past = self._run(["qacct", "-j", self._job_id])
            known = JobSeen(JobState.ENDED, "CANCELLED") if self._is_deleted else FORGOTTEN
            return job_states.read_qacct(past.output, self._limit_s) or known
        self._is_deleted = seen.words == job_states.SGE_DELETED
        if seen.words.startswith("Eqw"):
            details = self._run(["qstat", "-j", self._job_id])
            reason = job_states.read_qstat_reason(details.output)
            return JobSeen(seen.state, f"Eqw: {reason}") if reason else seen
        return seen


class LsfQuestion:
    """Asks LSF."""

    def __init__(self, job_id: str, now_s: Callable[[], float], run: Run = run_query) -> None:
        self._job_id = job_id
        self._now_s = now_s
        self._run = run

    def ask(self) -> JobSeen:
        """Say how the job stands."""
        fields = job_states.BJOBS_FIELDS
        said = self._run(["bjobs", "-a", "-noheader", "-o", fields, self._job_id])
        seen = job_states.read_bjobs(said.output, self._now_s())
        if seen is None and "is not found" in said.error + said.output:
            return FORGOTTEN
        return seen or _unknown(said)


class CondorQuestion:
    """Asks HTCondor; `limit_s` is the time limit that we gave, 0: none."""

    def __init__(self, job_id: str, run: Run = run_query, *, limit_s: float = 0.0) -> None:
        self._job_id = job_id
        self._limit_s = limit_s
        self._run = run

    def ask(self) -> JobSeen:
        """Say how the job stands."""
        fields = ["-af:t", *condor_states.CONDOR_FIELDS]
        said = self._run(["condor_q", self._job_id, *fields])
        if said.status:
            return _unknown(said)
        seen = condor_states.read_condor(said.output, self._limit_s)
        if seen is None:
            past = self._run(["condor_history", self._job_id, *fields])
            return condor_states.read_condor(past.output) or FORGOTTEN
        return seen


def _unknown(said: Said) -> JobSeen:
    return JobSeen(JobState.UNKNOWN, said.words or "the scheduler says nothing of it")


def _is_forgotten(said: Said, signs: Iterable[str]) -> bool:
    return any(sign.lower() in (said.error + said.output).lower() for sign in signs)


def _by_notice(output: str) -> JobSeen:
    """Give the end that the nodes have told of, where the scheduler has forgotten the job."""
    notice = slurm_states.read_notice(output)
    return JobSeen(JobState.ENDED, notice) if notice else FORGOTTEN


def _name_user(number: str) -> str:
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, ValueError):
        return number
