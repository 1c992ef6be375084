"""What HTCondor says of jobs that run our agents, one for each node, read and judged together."""

from collections.abc import Sequence

import msgspec

from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ended_with, ending
from jupyter_dist.text.lists import on_one_line

CONDOR_FIELDS = (
    *("JobStatus", "LastJobStatus", "EnteredCurrentStatus", "NumJobStarts", "ExitCode"),
    *("HoldReason", "RemoveReason", "LastRemoteHost"),
)
_IDLE, _RUNNING, _REMOVED, _HELD = "1", "2", "3", "5"
_ON_A_NODE = (_RUNNING, "6", "7")


class CondorRow(msgspec.Struct, frozen=True):
    """One of the jobs, in HTCondor's own words; empty: it says nothing of that."""

    status: str
    last_status: str
    since: str
    """When it got its status, in seconds since 1970."""
    starts: str
    exit_code: str
    hold_reason: str
    remove_reason: str
    last_host: str
    """Where it ran before, as `slot1@nodeA`."""

    @property
    def has_run(self) -> bool:
        """It was on a node before."""
        return self.starts not in ("", "0")

    @property
    def is_lost(self) -> bool:
        """It was taken from its node: evicted, so that it waits again, or held."""
        return self.has_run and self.status in (_IDLE, _HELD)


def read_condor(text: str, limit_s: float = 0.0) -> JobSeen | None:
    """Read tab-separated lines of CONDOR_FIELDS; None: that is nothing.

    `limit_s` is the time limit that we gave; HTCondor does not tell when that ends a job.
    """
    lines = [line.split("\t") for line in text.splitlines()]
    rows = [CondorRow(*map(_defined, line)) for line in lines if len(line) == len(CONDOR_FIELDS)]
    if not rows:
        return None
    running = [row for row in rows if row.status in _ON_A_NODE]
    lost = [row for row in rows if row.is_lost]
    held = next((row for row in rows if row.status == _HELD), None)
    if held is not None and not (held.has_run and running):
        reason = on_one_line(held.hold_reason) or "no reason given"
        return ended(JobCause.HELD, f"held: {reason}")
    if waiting := sum(row.status == _IDLE and not row.has_run for row in rows):
        idle = f"{waiting} of {len(rows)} idle" if waiting < len(rows) else "idle"
        return JobSeen(JobState.PENDING, f"PENDING: {idle}")
    if running:
        return _judge_running(rows, running, lost, limit_s)
    if lost:
        return ending(JobCause.PREEMPTED)
    return _end(rows)


def _judge_running(
    rows: Sequence[CondorRow],
    running: Sequence[CondorRow],
    lost: Sequence[CondorRow],
    limit_s: float,
) -> JobSeen:
    began = [int(row.since) for row in running if row.status == _RUNNING and row.since.isdecimal()]
    ends_at_s = min(began) + limit_s if began and limit_s else 0.0
    words = ""
    if lost:
        reason = next((on_one_line(row.hold_reason) for row in lost if row.status == _HELD), None)
        what = "PREEMPTED" if reason is None else f"held{reason and f' ({reason})'}"
        words = f"{len(lost)} of {len(rows)} {what}"
    nodes = tuple(row.last_host.rpartition("@")[2] for row in lost if row.last_host)
    return JobSeen(JobState.RUNNING, "RUNNING", ends_at_s, nodes, words)


def _end(rows: Sequence[CondorRow]) -> JobSeen:
    for row in rows:
        if row.status == _REMOVED:
            return _removal(row)
    return ended_with(next((row.exit_code for row in rows if row.exit_code not in ("", "0")), "0"))


def _removal(row: CondorRow) -> JobSeen:
    """Return why it was removed; the policies are those of launch/batch: options and templates."""
    reason = row.remove_reason
    if "PeriodicRemove" in reason:
        if "EnteredCurrentStatus" in reason and row.last_status == _RUNNING:
            return ended(JobCause.TIMEOUT, "TIMEOUT: PeriodicRemove")
        if "NumJobStarts" in reason and row.last_status == _IDLE:
            return ended(JobCause.PREEMPTED, "PREEMPTED: PeriodicRemove")
    return ended(JobCause.CANCELLED, f"CANCELLED ({on_one_line(reason)})" if reason else "")


def _defined(text: str) -> str:
    return "" if text.strip() == "undefined" else text.strip()
