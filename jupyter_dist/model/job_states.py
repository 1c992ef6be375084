"""What PBS, Grid Engine and LSF say of a job, read and judged.

For the others see slurm_states and condor_states.

All of them give None where the text has nothing about a job, so that another command is asked.
"""

import contextlib
import re
import time

from jupyter_dist.model.batch import JobSeen, JobState
from jupyter_dist.model.text import on_one_line

_ATTRIBUTE = re.compile(r"^ {4}(\S+) = (.*)$")
_COLONS = re.compile(r"(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")

# --- PBS ---

_PBS_WAITING = {"Q": "queued", "H": "held", "W": "waiting", "T": "in transit", "M": "moved"}
_PBS_RUNNING = {"R": "RUNNING", "B": "RUNNING", "E": "COMPLETING", "S": "suspended"}
_PBS_ENDED = ("F", "C", "X")
_PBS_STATUS = {
    -29: "TIMEOUT: walltime",
    -27: "OUT_OF_MEMORY",
    -26: "OUT_OF_MEMORY: vmem",
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
    if state in _PBS_ENDED:
        return JobSeen(JobState.ENDED, _pbs_end(job, comment))
    return None


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


def _pbs_end(job: dict[str, str], comment: str) -> str:
    text = job.get("Exit_status", job.get("exit_status", ""))
    if "walltime" in comment and "exceeded" in comment:
        return "TIMEOUT: walltime"
    if "terminated" in comment or "deleted" in comment.lower():
        return "CANCELLED"
    if not re.fullmatch(r"-?\d+", text):
        return comment or "ended"
    status = int(text)
    if status in _PBS_STATUS:
        return _PBS_STATUS[status]
    if status > _SIGNALLED:
        return f"ended by signal {status - _SIGNALLED}"
    return f"FAILED (exit code {status})" if status else "COMPLETED"


def _seconds(match: re.Match[str]) -> int:
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds


# --- Grid Engine ---


_SGE_LIMIT, _SGE_AFTER_JOB, _SGE_KILLED = "37", "100", "137"
"""Its words for: qmaster had to enforce a limit; the job has ended oddly; and by SIGKILL."""
SGE_DELETED = "COMPLETING: deleted"
"""A job that somebody has deleted, and whose nodes are not free yet."""


_SGE_ROW = re.compile(
    r"\s*(?P<job>\d+)\s.*\s(?P<state>[A-Za-z]+)\s+"
    r"(?P<at>(?:\d\d/\d\d/\d{4}|\d{4}-\d\d-\d\d)\s+\d\d:\d\d:\d\d)"
)
"""Found by the date, since names of jobs may have blanks."""
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
        return JobSeen(JobState.ENDED, "Eqw: its start went wrong on a node")
    if all("d" in state for state in states):
        return JobSeen(JobState.RUNNING, SGE_DELETED)
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
    """Give what `qstat -j` of Grid Engine says of a job that cannot start; or nothing."""
    found = re.search(r"^error reason\s+\d+:\s*(.*)$", text, re.MULTILINE)
    return on_one_line(found[1]) if found else ""


def read_qacct(text: str, limit_s: float = 0.0) -> JobSeen | None:
    """Read what Grid Engine's accounting keeps; the worst of its tasks counts.

    `limit_s` is the time limit that we gave: who is killed for it is just killed, it seems there.
    """
    tasks = [dict(re.findall(r"^(\S+) +(.*?) *$", part, re.MULTILINE)) for part in _records(text)]
    words = [_sge_end(task, limit_s) for task in tasks]
    if not words:
        return None
    return JobSeen(JobState.ENDED, next((each for each in words if each != "COMPLETED"), words[0]))


def _records(text: str) -> list[str]:
    return [part for part in re.split(r"^=+$", text, flags=re.MULTILINE) if "exit_status" in part]


def _sge_end(task: dict[str, str], limit_s: float) -> str:
    if (actor := task.get("deleted_by", "NONE")) not in ("NONE", ""):
        return f"CANCELLED by {actor}"
    failed = task.get("failed", "0")
    code = failed.partition(" ")[0]
    status = task.get("exit_status", "0").partition(" ")[0]
    ran = re.match(r"\d+", task.get("ru_wallclock", ""))
    is_over = ran is not None and 0 < limit_s <= int(ran[0]) and status == _SGE_KILLED
    if code == _SGE_LIMIT or "h_rt" in failed or (code == _SGE_AFTER_JOB and is_over):
        return f"TIMEOUT ({on_one_line(failed)})"
    if code not in ("0", ""):
        return f"FAILED ({on_one_line(failed)}, exit status {status})"
    return "COMPLETED" if status == "0" else f"FAILED (exit code {status})"


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
        return JobSeen(JobState.ENDED, "COMPLETED")
    if not status:
        return None
    if status not in _LSF_ENDED:  # of a newer LSF; the end of a job is final, so no guess
        return JobSeen(JobState.UNKNOWN, status)
    return JobSeen(JobState.ENDED, _lsf_end(exit_code, exit_reason))


def _lsf_end(exit_code: str, reason: str) -> str:
    for sign, words in (
        ("TERM_RUNLIMIT", "TIMEOUT"),
        ("TERM_PREEMPT", "PREEMPTED"),
        ("TERM_OWNER", "CANCELLED"),
        ("TERM_ADMIN", "CANCELLED"),
        ("TERM_FORCE", "CANCELLED"),
    ):
        if sign in reason:
            return f"{words} ({on_one_line(reason)})"
    details = [
        part for part in (exit_code and f"exit code {exit_code}", on_one_line(reason)) if part
    ]
    return f"FAILED ({', '.join(details)})" if details else "FAILED"
