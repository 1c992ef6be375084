"""Is it alive? A decision without a clock of its own, and its reason as a sentence."""

from enum import StrEnum

import msgspec

from jupyter_dist.errors import UsageError


class Liveness(StrEnum):
    """What the heartbeats say of an engine."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    LOST = "lost"


class HealthPolicy(msgspec.Struct, frozen=True):
    """How often engines are asked for a beat, and after which silence they are given up."""

    interval_s: float = 1.0
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


def assess(now_s: float, last_beat_s: float, policy: HealthPolicy) -> tuple[Liveness, str]:
    """Judge one engine by the time of its last beat (both times from one monotonic clock)."""
    silence_s = max(0.0, now_s - last_beat_s)
    if silence_s >= policy.lost_after_s:
        limit_s = policy.lost_after_s
        return Liveness.LOST, f"no heartbeat for {silence_s:.1f} s (limit {limit_s:g} s)"
    if silence_s >= policy.suspect_after_s:
        return Liveness.SUSPECT, f"no heartbeat for {silence_s:.1f} s"
    return Liveness.ALIVE, f"heartbeat {silence_s:.1f} s ago"
