"""What is said of a batch job: how it stands, when its time ends it, and why it has ended."""

import math
import re

from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState

NEAR_END_S = (600.0, 120.0, 30.0)
"""So long before its time limit ends a job someone is told, each time once."""
_ENDS = {
    JobCause.CANCELLED: "was cancelled",
    JobCause.TIMEOUT: "reached its time limit",
    JobCause.PREEMPTED: "was preempted",
    JobCause.REQUEUED: "was put back into the queue",
    JobCause.NODE_FAIL: "has lost a node",
    JobCause.BOOT_FAIL: "got a node that did not boot",
    JobCause.OUT_OF_MEMORY: "was killed for its memory",
    JobCause.DEADLINE: "reached its deadline",
    JobCause.FAILED: "failed",
}

_NEVER = re.compile(
    r"Partition(Node|Time)Limit|BadConstraints|Invalid(Account|QOS)|(Account|QOS)NotAllowed",
    re.IGNORECASE,
)
"""Why jobs wait that begin only when someone changes them, or what is available."""


def waits_in_vain(seen: JobSeen) -> bool:
    """Return whether a job waits for something that no other job's end will bring."""
    return seen.state is JobState.PENDING and _NEVER.search(seen.words) is not None


def describe_end(label: str, seen: JobSeen) -> str:
    """Return how a job has ended, with its scheduler's own words behind it."""
    text = "has ended" if seen.cause is None else _ENDS.get(seen.cause, "has ended")
    return f"{label} {text} ({seen.words})" if seen.words else f"{label} {text}"


def explain_long_wait(state: str) -> str:
    """Return why a job that waits in a queue is given up, and what may help."""
    return (
        f"{state}. It is being cancelled. A longer --timeout waits longer, for example "
        "--timeout 2h; fewer --nodes may start sooner, as may another --queue or a shorter "
        "--time-limit where there are some."
    )


def with_last_lines(text: str, said: str) -> str:
    """Add what a job has said last to a sentence about it; empty: it has said nothing."""
    return f"{text}\n--- the job said last ---\n{said}" if said else text


def describe_loss(label: str, seen: JobSeen | None, host: str) -> str:
    """Return what the scheduler knows of the loss of a host; empty: nothing.

    Without a host: of the loss of a rank whose host lives, of which only the job is a reason.
    """
    if seen is None:
        return ""
    if seen.state is JobState.ENDED or seen.cause is not None:
        return describe_end(label, seen)
    if seen.state is JobState.ENDING:
        return f"{label} is just being ended ({seen.text})"
    if host and seen.state is JobState.PENDING:  # preempted, and to begin again
        return f"{label} is waiting in the queue ({seen.words or 'PENDING'})"
    if any(_is_same_host(node, host) for node in seen.lost_nodes):
        return f"{label}: {seen.lost_words or f'node {host} is down'}"
    return ""


def describe_job(label: str, seen: JobSeen | None, now_s: float) -> str:
    """Return how a job stands, as `Slurm job 12, RUNNING, ends in 1 h 52 min`.

    `now_s` is in seconds since 1970, as in all of these.
    """
    if seen is None:
        return label
    words = seen.text or str(seen.state).upper()
    parts = [label, words]
    if (left_s := _left_s(seen, now_s)) < math.inf:
        parts.append(f"ends in {_remaining(left_s)}")
    return ", ".join(parts)


def describe_near_end(label: str, seen: JobSeen | None, now_s: float) -> str:
    """Say that a job's time is nearly over; empty while there is more than ten minutes of it."""
    remaining_s = _left_s(seen, now_s)
    if remaining_s > NEAR_END_S[0]:
        return ""
    scheduler = label.partition(" ")[0]
    if remaining_s <= 0:
        return f"{scheduler} ends this job now (time limit)"
    return f"{scheduler} ends this job in {_remaining(remaining_s)} (time limit)"


def stage_of_end(seen: JobSeen | None, now_s: float) -> int:
    """Return how many of NEAR_END_S have gone by."""
    left_s = _left_s(seen, now_s)
    return sum(left_s <= before_s for before_s in NEAR_END_S)


def _left_s(seen: JobSeen | None, now_s: float) -> float:
    """Return how long a job that runs has left; infinite where there is none, or no limit."""
    if seen is None or seen.state is not JobState.RUNNING or not seen.ends_at_s:
        return math.inf
    return seen.ends_at_s - now_s


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
    """Return whether both are names of one host, with or without its domain."""
    return node.partition(".")[0].lower() == host.partition(".")[0].lower()
