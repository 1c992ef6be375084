"""Is it alive? A decision without a clock of its own, and its reason as a sentence."""

from enum import StrEnum

import msgspec

from jupyter_dist.errors import UsageError

_MOST_ASKED_PER_S = 250
"""Hosts together, as far as each is asked twice within the time after which it is suspect."""
_MOST_LIMITS = 10
"""A rank without a core is given up after so many times the limit: nothing is awaited for ever."""


class Liveness(StrEnum):
    """What the heartbeats say of an engine."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    LOST = "lost"


class HealthPolicy(msgspec.Struct, frozen=True):
    """How often engines are asked for a beat, and after which silence they are given up."""

    interval_s: float = 1.0
    """At least, see `beat_interval_s`."""
    suspect_after_s: float = 3.0
    lost_after_s: float = 10.0


def check_health(policy: HealthPolicy) -> None:
    """Raise UsageError for times that make no sense together."""
    interval_s, suspect_s, lost_s = policy.interval_s, policy.suspect_after_s, policy.lost_after_s
    if not 0 < interval_s < suspect_s < lost_s:
        raise UsageError(
            f"heartbeats every {interval_s:g} s, suspect after {suspect_s:g} s, lost after "
            f"{lost_s:g} s: each must be more than the one before. Accepted: for example "
            "1, 3 and 10."
        )


def beat_interval_s(policy: HealthPolicy, hosts: int) -> float:
    """Return how often the engines of so many hosts are asked, in seconds: of many less often."""
    return max(policy.interval_s, min(hosts / _MOST_ASKED_PER_S, policy.suspect_after_s / 2))


def lost_at_s(last_beat_s: float, policy: HealthPolicy, starved_s: float = 0.0) -> float:
    """Return when an engine is given up of which nothing more is heard."""
    excused_s = min(starved_s, (_MOST_LIMITS - 1) * policy.lost_after_s)
    return last_beat_s + policy.lost_after_s + excused_s


def assess(
    now_s: float, last_beat_s: float, policy: HealthPolicy, starved_s: float = 0.0
) -> tuple[Liveness, str]:
    """Judge one engine by the time of its last beat (both times from one monotonic clock).

    For `starved_s` of its silence it had no core to answer, as its agent saw.
    """
    silence_s = max(0.0, now_s - last_beat_s)
    starved = f", {starved_s:.1f} s of them without a core" if starved_s else ""
    if now_s >= lost_at_s(last_beat_s, policy, starved_s):
        limit = f" (limit {policy.lost_after_s:g} s)"
        return Liveness.LOST, f"no heartbeat for {silence_s:.1f} s{starved}{limit}"
    if silence_s >= policy.suspect_after_s:
        return Liveness.SUSPECT, f"no heartbeat for {silence_s:.1f} s{starved}"
    return Liveness.ALIVE, f"heartbeat {silence_s:.1f} s ago"
