"""What Slurm's commands say of a job, read and judged."""

import re
import time
from collections.abc import Callable, Collection, Iterator

import msgspec

from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended, ending
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import fit

_WAITING = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"),
    *("RESV_DEL_HOLD", "SPECIAL_EXIT", "POWER_UP_NODE", "STAGE_IN"),
)
_GOING_ON = (
    *("RUNNING", "SUSPENDED", "STOPPED"),
    *("RESIZING", "SIGNALING", "STAGE_OUT", "UPDATE_DB"),
)
_ENDED = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "REVOKED"),
    *("OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED"),
)
_ENDING = "COMPLETING"
_CAUSES = {str(cause): cause for cause in JobCause} | {"LAUNCH_FAILED": JobCause.FAILED}
_NO_REASON = ("", "None", "(null)")
_BY_REASON = {
    "TimeLimit": JobCause.TIMEOUT,
    "NodeDown": JobCause.NODE_FAIL,
    "OutOfMemory": JobCause.OUT_OF_MEMORY,
}
_NOTICE = re.compile(
    r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+(?: DUE TO (?P<cause>[A-Za-z ]+))?"
)
"""What the daemons on the nodes write into the output of a job that they end."""
_BY_NOTICE = {
    "TIME LIMIT": JobCause.TIMEOUT,
    "PREEMPTION": JobCause.PREEMPTED,
    "NODE FAILURE": JobCause.NODE_FAIL,
    "JOB REQUEUE": JobCause.REQUEUED,
}
_DOWN = ("DOWN", "FAIL", "ERROR", "POWERING_DOWN", "POWERED_DOWN", "FUTURE")
"""States of nodes, whole words: who is FAILING works, and is only expected to fail."""
_MARKS = "*~#!%$@^-"
"""Stand behind the state of a node, as in `down*`, which also does not answer."""
_NAMES = re.compile(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*")
_BRACKETS = re.compile(r"\[([^\]]*)\]")


class SlurmJob(msgspec.Struct, frozen=True):
    """One job, in Slurm's own words."""

    status: str
    """As RUNNING; what follows it, as in `CANCELLED by 0`, stands in `actor`."""
    reason: str = ""
    ends_at_s: float = 0.0
    nodes: tuple[str, ...] = ()
    exit_code: str = ""
    """Exit code and signal, as `1:0`."""
    actor: str = ""
    """Number of the user who has cancelled it, where that is known."""


def read_scontrol(text: str) -> SlurmJob | None:
    """Read what `scontrol --oneliner show job` says of one job; None: that is nothing."""
    fields = dict(re.findall(r"(?:^|\s)([A-Z][A-Za-z:]*)=(\S*)", text.partition("\n")[0]))
    if "JobState" not in fields:
        return None
    limit = fields.get("TimeLimit", "")
    return SlurmJob(
        status=fields["JobState"],
        reason=fields.get("Reason", ""),
        ends_at_s=0.0 if limit == "UNLIMITED" else read_time_s(fields.get("EndTime", "")),
        nodes=expand_nodes(fields.get("NodeList", "")),
        exit_code=fields.get("ExitCode", ""),
    )


def read_sacct(text: str) -> SlurmJob | None:
    """Read `State|ExitCode`, which accounting keeps of a job; None: it has nothing."""
    line = text.strip().partition("\n")[0]
    status, found, exit_code = line.partition("|")
    if not found or not status:
        return None
    status, _, actor = status.partition(" by ")
    return SlurmJob(status.strip(), exit_code=exit_code.strip("| "), actor=actor.strip())


def read_sinfo(text: str) -> dict[str, str]:
    """Read lines of `node|state|reason`, and give the nodes that are down with the reason."""
    down = {}
    for line in text.splitlines():
        name, _, rest = line.strip().partition("|")
        state, _, reason = rest.partition("|")
        if any(word.rstrip(_MARKS) in _DOWN for word in state.upper().split("+")):
            down[name] = reason.strip() if reason.strip().lower() != "none" else ""
    return down


def read_notice(output: str) -> JobCause | None:
    """Return why Slurm has ended a job, from what it wrote into its output; None: no word."""
    notices = list(_NOTICE.finditer(output))
    if not notices:
        return None
    cause = (notices[-1]["cause"] or "").strip().upper()
    found = (known for text, known in _BY_NOTICE.items() if cause.startswith(text))
    return next(found, JobCause.CANCELLED)


def judge(
    job: SlurmJob,
    *,
    notice: JobCause | None = None,
    down: dict[str, str] | None = None,
    gone: Collection[str] = (),
    name_user: Callable[[str], str] = str,
) -> JobSeen:
    """Return how a job stands.

    `notice` is what its own output tells of its end, `down` has nodes that are down, `gone` those
    that it had before; `name_user` gives the name for a user's number.
    """
    reason = "" if job.reason in _NO_REASON else job.reason
    if job.status in _WAITING:
        return JobSeen(JobState.PENDING, f"{job.status}: {reason}" if reason else job.status)
    if job.status == _ENDING:
        return ending(_BY_REASON.get(reason, notice))
    if job.status in _GOING_ON:
        return _judge_running(job, down or {}, gone)
    if job.status not in _ENDED:  # of a newer Slurm; the end of a job is final, so no guess
        return JobSeen(JobState.UNKNOWN, job.status)
    words, cause = job.status, _CAUSES.get(job.status, JobCause.OTHER)
    if cause is JobCause.CANCELLED and job.actor:
        words = f"CANCELLED by {name_user(job.actor)}"
    elif cause is JobCause.FAILED:
        words += _describe_exit(job.exit_code)
        if notice not in (None, JobCause.CANCELLED):
            words, cause = f"{notice} ({words})", notice
    return ended(cause, words)


def _judge_running(job: SlurmJob, down: dict[str, str], gone: Collection[str]) -> JobSeen:
    words = ""
    lost = tuple(sorted({*down, *gone}))
    if lost:
        why = next((reason for node in lost if (reason := down.get(node, ""))), "")
        are = fit(lost, "node {} is down", "nodes {} are down")
        words = are.format(name_some(lost)) + (f" ({why})" if why else "")
    return JobSeen(JobState.RUNNING, job.status, job.ends_at_s, lost, words)


def _describe_exit(exit_code: str) -> str:
    code, _, number = exit_code.partition(":")
    if number not in ("", "0"):
        return f" (signal {number})"
    return f" (exit code {code})" if code not in ("", "0") else ""


def read_time_s(text: str) -> float:
    """Read a time, as seconds since 1970 or `2026-11-22T11:30:00`; 0 when there is none."""
    if text.isdecimal():
        return float(text)
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0


def expand_nodes(text: str) -> tuple[str, ...]:
    """Return every name of a list such as `gpu[01-03,7],login`."""
    if text in _NO_REASON:
        return ()
    return tuple(name for part in _NAMES.findall(text) for name in _expand(part))


def _expand(pattern: str) -> Iterator[str]:
    found = _BRACKETS.search(pattern)
    if found is None:
        yield pattern
        return
    for span in found[1].split(","):
        first, is_span, last = span.partition("-")
        numbers = [first]
        if is_span and first.isdecimal() and last.isdecimal():
            numbers = [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)]
        for number in numbers:
            yield from _expand(f"{pattern[: found.start()]}{number}{pattern[found.end() :]}")
