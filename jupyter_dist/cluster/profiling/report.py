"""A profile for programs: what `jupyter dist profile --json` writes."""

import msgspec

from jupyter_dist.cluster.profiling.profile import Profile
from jupyter_dist.model.ranks.profiles import Allocation


class PlaceTime(msgspec.Struct, frozen=True):
    """Seconds of work at one line."""

    site: str
    function: str
    code: str
    seconds: float


class RankReport(msgspec.Struct, frozen=True):
    """Seconds of one rank, and what it holds."""

    work_s: float
    wait_s: float
    exchange_s: float
    idle_s: float
    places: tuple[PlaceTime, ...]
    """The ten with most work."""
    sampling_cost_s: float
    """CPU time that looking at it has taken."""
    held_bytes: int
    gpu_bytes: int
    allocations: tuple[Allocation, ...]


class ProfileReport(msgspec.Struct, frozen=True):
    """One profile; docs/how_to/profiler.md has the fields."""

    cluster: str
    kind: str
    seconds: float
    slow_ranks: tuple[int, ...]
    spread: float
    site: str
    """Where the slow ranks lose their time; empty: it is not known."""
    verdict: str
    ranks: dict[str, RankReport]
    problems: dict[str, str]
    notes: tuple[str, ...]


_MOST_PLACES = 10


def report_profile(profile: Profile) -> ProfileReport:
    """Return what is to be told of a profile."""
    slowness = profile.slowness
    return ProfileReport(
        cluster=profile.cluster,
        kind=profile.kind,
        seconds=profile.window.seconds,
        slow_ranks=slowness.ranks,
        spread=slowness.spread,
        site=slowness.place.site if slowness.place is not None else "",
        verdict=str(slowness),
        ranks={str(rank): _report_rank(profile, rank) for rank in profile.times},
        problems={str(rank): reason for rank, reason in profile.problems.items()},
        notes=tuple(profile.notes),
    )


def _report_rank(profile: Profile, rank: int) -> RankReport:
    own, told = profile.times[rank], profile.ranks.get(rank)
    longest = sorted(own.places.items(), key=lambda each: -each[1])[:_MOST_PLACES]
    return RankReport(
        own.work_s,
        own.wait_s,
        own.exchange_s,
        own.idle_s,
        tuple(
            PlaceTime(place.site, place.function, place.code, seconds) for place, seconds in longest
        ),
        sampling_cost_s=told.cost_ns / 1e9 if told is not None else 0.0,
        held_bytes=told.held_bytes if told is not None else 0,
        gpu_bytes=profile.gpu_bytes.get(rank, 0),
        allocations=told.allocations if told is not None else (),
    )
