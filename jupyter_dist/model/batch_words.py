"""What is said of a batch job: how it stands, when its time ends it, and why it has ended."""

import math
import re

from jupyter_dist.model.batch import JobSeen, JobState

NEAR_END_S = (600.0, 120.0, 30.0)
"""So long before its time limit ends a job somebody is told, each time once."""
COMPLETING = "COMPLETING"
"""What Slurm says of a job that is just being ended; behind a colon it says why."""
_ENDS = (
    (r"CANCELLED|REMOVED|DELETED", "was cancelled"),
    (r"TIMEOUT|TIME_LIMIT|TIME LIMIT|RUNLIMIT|WALLTIME", "reached its time limit"),
    (r"PREEMPTED|EVICTED|REQUEUED", "was preempted"),
    (r"NODE_FAIL|NODE FAIL", "has lost a node"),
    (r"BOOT_FAIL", "got a node that did not boot"),
    (r"OUT_OF_MEMORY|MEMLIMIT", "was killed for its memory"),
    (r"DEADLINE", "reached its deadline"),
    (r"FAILED", "failed"),
)
"""What schedulers' words mean; the first line that fits."""


_NEVER = re.compile(
    r"Partition(Node|Time)Limit|BadConstraints|Invalid(Account|QOS)|(Account|QOS)NotAllowed",
    re.IGNORECASE,
)
"""Why jobs wait that begin only when somebody changes them, or what is available."""


def waits_in_vain(seen: JobSeen) -> bool:
    """Tell whether a job waits for something that no other job's end will bring."""
    return seen.state is JobState.PENDING and _NEVER.search(seen.words) is not None


def describe_end(label: str, words: str) -> str:
    """Say how a job has ended, with its scheduler's own words behind it."""
    found = (text for pattern, text in _ENDS if re.search(pattern, words, re.IGNORECASE))
    quoted = f" ({words})" if words else ""
    return f"{label} {next(found, 'has ended')}{quoted}"


def describe_loss(label: str, seen: JobSeen | None, host: str) -> str:
    """Say what the scheduler knows of the loss of a host; empty: nothing.

    Without a host: of the loss of a rank whose host lives, of which only the job is a reason.
    """
    if seen is None:
        return ""
    if seen.state is JobState.ENDED:
        return describe_end(label, seen.words)
    state, _, cause = seen.words.partition(": ")
    if state == COMPLETING:
        return describe_end(label, cause) if cause else f"{label} is just being ended ({state})"
    if host and seen.state is JobState.PENDING:  # preempted, and to begin again
        return f"{label} is waiting in the queue ({seen.words or 'PENDING'})"
    if any(_is_same_host(node, host) for node in seen.lost_nodes):
        detail = seen.words.partition("; ")[2]  # what the scheduler says of the node
        return f"{label}: {detail or f'node {host} is down'}"
    return ""


def describe_job(label: str, seen: JobSeen | None, now_s: float) -> str:
    """Say how a job stands, as `Slurm job 12, RUNNING, ends in 1 h 52 min`.

    `now_s` is in seconds since 1970, as in all of these.
    """
    if seen is None:
        return label
    words = seen.words or str(seen.state).upper()
    parts = [label, words]
    if seen.state is JobState.RUNNING and seen.ends_at_s:
        parts.append(f"ends in {_remaining(seen.ends_at_s - now_s)}")
    return ", ".join(parts)


def describe_near_end(label: str, seen: JobSeen | None, now_s: float) -> str:
    """Say that a job's time is nearly over; empty while there is more than ten minutes of it."""
    if seen is None or seen.state is not JobState.RUNNING or not seen.ends_at_s:
        return ""
    remaining_s = seen.ends_at_s - now_s
    if remaining_s > NEAR_END_S[0]:
        return ""
    scheduler = label.partition(" ")[0]
    if remaining_s <= 0:
        return f"{scheduler} ends this job now (time limit)"
    return f"{scheduler} ends this job in {_remaining(remaining_s)} (time limit)"


def stage_of_end(seen: JobSeen | None, now_s: float) -> int:
    """Tell how many of NEAR_END_S have gone by."""
    if seen is None or seen.state is not JobState.RUNNING or not seen.ends_at_s:
        return 0
    return sum(seen.ends_at_s - now_s <= before_s for before_s in NEAR_END_S)


def _remaining(seconds: float) -> str:
    """Write a time as `1 h 52 min`, `8 min` or `110 s`, no longer than it is."""
    if seconds < NEAR_END_S[1]:
        step_s = 10 if seconds > NEAR_END_S[2] else 1
        return f"{max(0, math.floor(seconds / step_s) * step_s)} s"
    minutes = math.floor(seconds / 60)
    days, hours = divmod(minutes // 60, 24)
    parts = ((days, "d"), (hours, "h"), (0 if days else minutes % 60, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 min"


def _is_same_host(node: str, host: str) -> bool:
    """Tell whether both are names of one host, with or without its domain."""
    return node.partition(".")[0].lower() == host.partition(".")[0].lower()
