"""What PBS, Grid Engine and LSF say of a job, read and judged.

For the others see slurm.py and condor.py.

All of them give None where the text has nothing about a job, so that another command is asked.
"""

import contextlib
import re
import time

from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ended_with, ending
from jupyter_dist.text.lists import on_one_line

_ATTRIBUTE = re.compile(r"^ {4}(\S+) = (.*)$")
_COLONS = re.compile(r"(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")

# --- PBS ---

_PBS_WAITING = {"Q": "queued", "H": "held", "W": "waiting", "T": "in transit", "M": "moved"}
_PBS_RUNNING = {"R": "RUNNING", "B": "RUNNING", "S": "suspended"}
_PBS_ENDING = "E"
_PBS_ENDED = ("F", "C", "X")
_PBS_STATUS = {
    -29: ended(JobCause.TIMEOUT, "TIMEOUT: walltime"),
    -27: ended(JobCause.OUT_OF_MEMORY),
    -26: ended(JobCause.OUT_OF_MEMORY, "OUT_OF_MEMORY: vmem"),
}
"""Statuses that PBS gives instead of the script's own."""
_SIGNALLED = 256
"""PBS adds it to the number of a signal."""


def read_qstat_full(text: str) -> JobSeen | None:
    """Read `qstat -f` of PBS Pro, OpenPBS or Torque."""
    job = _read_attributes(text)
    state, comment = job.get("job_state", ""), on_one_line(job.get("comment", ""))
    if state in _PBS_WAITING:
        return JobSeen(JobState.PENDING, f"PENDING: {comment or _PBS_WAITING[state]}")
    if state in _PBS_RUNNING:
        return JobSeen(JobState.RUNNING, _PBS_RUNNING[state], _pbs_end_s(job))
    if state == _PBS_ENDING:
        return ending()
    return _pbs_end(job, comment) if state in _PBS_ENDED else None


def _read_attributes(text: str) -> dict[str, str]:
    """Give `name = value` lines; a long value goes on after a tab."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if match := _ATTRIBUTE.match(line):
            name = match[1]
            found[name] = match[2]
        elif line.startswith("\t") and name:
            found[name] += line.strip("\t")
        else:
            name = ""
    return found


def _pbs_end_s(job: dict[str, str]) -> float:
    limit = _COLONS.fullmatch(job.get("Resource_List.walltime", ""))
    try:
        began = time.strptime(job.get("stime") or job.get("start_time") or "")
    except ValueError:
        return 0.0
    return time.mktime(began) + _seconds(limit) if limit is not None else 0.0


def _pbs_end(job: dict[str, str], comment: str) -> JobSeen:
    text = job.get("Exit_status", job.get("exit_status", ""))
    if "walltime" in comment and "exceeded" in comment:
        return ended(JobCause.TIMEOUT, "TIMEOUT: walltime")
    if "terminated" in comment or "deleted" in comment.lower():
        return ended(JobCause.CANCELLED)
    if not re.fullmatch(r"-?\d+", text):
        return ended(JobCause.OTHER, comment or "ended")
    status = int(text)
    if status in _PBS_STATUS:
        return _PBS_STATUS[status]
    if status > _SIGNALLED:
        return ended(JobCause.OTHER, f"ended by signal {status - _SIGNALLED}")
    return ended_with(status)


def _seconds(match: re.Match[str]) -> int:
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds


# --- Grid Engine ---


_SGE_LIMIT, _SGE_AFTER_JOB, _SGE_KILLED = "37", "100", "137"
"""Its words for: qmaster had to enforce a limit; the job has ended oddly; and by SIGKILL."""


_SGE_ROW = re.compile(
    r"\s*(?P<job>\d+)\s.*\s(?P<state>[A-Za-z]+)\s+"
    r"(?P<at>(?:\d\d/\d\d/\d{4}|\d{4}-\d\d-\d\d)\s+\d\d:\d\d:\d\d)"
)
"""Found by the date, since names of jobs may have blanks."""
_SGE_RULE = re.compile(r"^=+$", re.MULTILINE)
_SGE_FIELD = re.compile(r"^(\S+) +(.*?) *$", re.MULTILINE)
_SGE_DATES = ("%m/%d/%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S")


def read_qstat_list(text: str, job_id: str, limit_s: float = 0.0) -> JobSeen | None:
    """Read the lines that `qstat` of Grid Engine has for the tasks of a job.

    `limit_s` is the time limit that we gave; these lines do not tell when it ends the job.
    """
    rows = [row for row in map(_SGE_ROW.match, text.splitlines()) if row and row["job"] == job_id]
    states = [row["state"] for row in rows]
    if not states:
        return None
    if any("E" in state for state in states):
        return ended(JobCause.ERROR, "Eqw: its start went wrong on a node")
    if all("d" in state for state in states):
        return ending(JobCause.CANCELLED, "deleted")
    waiting = [state for state in states if "w" in state]
    if waiting:
        return JobSeen(JobState.PENDING, f"PENDING: {waiting[0]}")
    if all(state == "t" for state in states):
        return JobSeen(JobState.PENDING, "PENDING: in transit")
    began_s = min(_sge_time_s(row["at"]) for row in rows)
    return JobSeen(JobState.RUNNING, "RUNNING", began_s + limit_s if began_s and limit_s else 0.0)


def _sge_time_s(text: str) -> float:
    for form in _SGE_DATES:
        with contextlib.suppress(ValueError):
            return time.mktime(time.strptime(" ".join(text.split()), form))
    return 0.0


def read_qstat_reason(text: str) -> str:
    """Return what `qstat -j` of Grid Engine says of a job that cannot start; or nothing."""
    found = re.search(r"^error reason\s+\d+:\s*(.*)$", text, re.MULTILINE)
    return on_one_line(found[1]) if found else ""


def read_qacct(text: str, limit_s: float = 0.0) -> JobSeen | None:
    """Read what Grid Engine's accounting keeps; the worst of its tasks counts.

    `limit_s` is the time limit that we gave: who is killed for it is just killed, it seems there.
    """
    records = [part for part in _SGE_RULE.split(text) if "exit_status" in part]
    ends = [_sge_end(dict(_SGE_FIELD.findall(record)), limit_s) for record in records]
    bad = (each for each in ends if each.cause is not JobCause.COMPLETED)
    return next(bad, ends[0]) if ends else None


def _sge_end(task: dict[str, str], limit_s: float) -> JobSeen:
    if (actor := task.get("deleted_by", "NONE")) not in ("NONE", ""):
        return ended(JobCause.CANCELLED, f"CANCELLED by {actor}")
    failed = task.get("failed", "0")
    code = failed.partition(" ")[0]
    status = task.get("exit_status", "0").partition(" ")[0]
    ran = re.match(r"\d+", task.get("ru_wallclock", ""))
    is_over = ran is not None and 0 < limit_s <= int(ran[0]) and status == _SGE_KILLED
    if code == _SGE_LIMIT or "h_rt" in failed or (code == _SGE_AFTER_JOB and is_over):
        return ended(JobCause.TIMEOUT, f"TIMEOUT ({on_one_line(failed)})")
    if code not in ("0", ""):
        words = f"FAILED ({on_one_line(failed)}, exit status {status})"
        return ended(JobCause.FAILED, words)
    return ended_with(status)


# --- LSF ---

BJOBS_FIELDS = "stat exit_code exit_reason time_left pend_reason delimiter='|'"
_LSF_WAITING = ("PEND", "PSUSP", "WAIT", "PROV")
_LSF_RUNNING = ("RUN", "USUSP", "SSUSP", "UNKWN")
_LSF_ENDED = ("EXIT", "ZOMBI")
_LSF_LEFT = re.compile(r"(?P<hours>\d+):(?P<minutes>\d+)(?: L)?")


def read_bjobs(text: str, now_s: float) -> JobSeen | None:
    """Read a line of BJOBS_FIELDS; `now_s` is in seconds since 1970."""
    parts = text.strip().partition("\n")[0].split("|", 4)
    if len(parts) < 5:
        return None
    status, exit_code, exit_reason, left, pending = (part.strip().strip("-") for part in parts)
    if status in _LSF_WAITING:
        return JobSeen(JobState.PENDING, f"PENDING: {on_one_line(pending) or status}")
    if status in _LSF_RUNNING:
        match = _LSF_LEFT.fullmatch(left)
        ends_at_s = now_s + 3600 * int(match[1]) + 60 * int(match[2]) if match else 0.0
        return JobSeen(JobState.RUNNING, "RUNNING" if status == "RUN" else status, ends_at_s)
    if status == "DONE":
        return ended(JobCause.COMPLETED)
    if not status:
        return None
    if status not in _LSF_ENDED:  # of a newer LSF; the end of a job is final, so no guess
        return JobSeen(JobState.UNKNOWN, status)
    return _lsf_end(exit_code, exit_reason)


def _lsf_end(exit_code: str, reason: str) -> JobSeen:
    for sign, cause in (
        ("TERM_RUNLIMIT", JobCause.TIMEOUT),
        ("TERM_MEMLIMIT", JobCause.OUT_OF_MEMORY),
        ("TERM_PREEMPT", JobCause.PREEMPTED),
        ("TERM_OWNER", JobCause.CANCELLED),
        ("TERM_ADMIN", JobCause.CANCELLED),
        ("TERM_FORCE", JobCause.CANCELLED),
    ):
        if sign in reason:
            return ended(cause, f"{cause} ({on_one_line(reason)})")
    details = [
        part for part in (exit_code and f"exit code {exit_code}", on_one_line(reason)) if part
    ]
    return ended(JobCause.FAILED, f"FAILED ({', '.join(details)})" if details else "")
