"""Where the time of each rank went: work, waits for others, exchange, nothing to do. Pure.

What are waits and exchange the recorders know to the microsecond; what the work was, samples tell.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from jupyter_dist.cluster.collectives.timeline import Timeline
from jupyter_dist.model.ranks.profiles import RankProfile
from jupyter_dist.model.ranks.stacks import Frame

Doing = Literal["work", "wait", "exchange", "idle"]
IDLE = Frame("no cell runs", "")
_COLLECTIVES = re.compile(r"(^|/)torch/distributed/(distributed_c10d|_functional_collectives)\.py:")
"""Where torch waits for other ranks: our recorders do not have its calls."""


class Window(msgspec.Struct, frozen=True):
    """The time that all ranks were profiled, as time of day of the first host."""

    start_ns: int
    end_ns: int
    is_cut: bool = False
    """Recorders do not reach back to its beginning, so it is shorter than the profile."""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return max(0, self.end_ns - self.start_ns) / 1e9


class Part(msgspec.Struct, frozen=True):
    """A part of a rank's time in one call, from `start_ns` to `end_ns`."""

    start_ns: int
    end_ns: int
    doing: Doing
    operation: str
    site: str


class SampledPart(msgspec.Struct, frozen=True):
    """What a sample stands for: the time since the one before, and what the rank was inside of."""

    start_ns: int
    end_ns: int
    doing: Doing
    stack: tuple[Frame, ...]
    is_recorded: bool = False
    """A recorder has the call that it is in."""

    @property
    def seconds(self) -> float:
        """How much time it stands for."""
        return (self.end_ns - self.start_ns) / 1e9


class RankTime(msgspec.Struct, frozen=True):
    """Seconds of one rank within the window."""

    rank: int
    work_s: float
    wait_s: float
    """In collectives, until the last rank had come; of calls of frameworks all of it."""
    exchange_s: float
    """In collectives, after that."""
    idle_s: float
    """Between cells."""
    places: dict[Frame, float]
    """Seconds of work by the innermost line that users wrote."""
    is_sampled: bool = True


def find_window(timeline: Timeline, profiles: Mapping[int, RankProfile]) -> Window:
    """Return the time that all have in common, and of which all calls are known."""
    offsets = {rank: timeline.offset_ns(rank) or 0 for rank in profiles}
    start_ns = max((each.began_ns + offsets[rank] for rank, each in profiles.items()), default=0)
    end_ns = min((each.ended_ns + offsets[rank] for rank, each in profiles.items()), default=0)
    known_ns = max((timeline.known_since_ns(rank) for rank in timeline.hosts), default=0)
    is_cut = start_ns < known_ns
    return Window(min(max(start_ns, known_ns), max(start_ns, end_ns)), end_ns, is_cut)


def find_parts(timeline: Timeline, rank: int, window: Window) -> list[Part]:
    """Return what a rank did in collectives, in order and without overlaps."""
    parts: list[Part] = []
    at_ns = window.start_ns
    for timed in timeline.calls_of(rank) if rank in timeline.hosts else ():
        call = timed.call
        waits_until_ns = timed.end_ns if call.framework or call.is_message else timed.came_ns
        spans: tuple[tuple[int, int, Doing], ...] = (
            (timed.start_ns, waits_until_ns, "wait"),
            (max(timed.start_ns, waits_until_ns), timed.end_ns, "exchange"),
        )
        for begin_ns, until_ns, doing in spans:
            start_ns, end_ns = max(begin_ns, at_ns), min(until_ns, window.end_ns)
            if end_ns > start_ns:
                parts.append(Part(start_ns, end_ns, doing, call.operation, call.site))
                at_ns = end_ns
    return parts


def read_samples(
    profile: RankProfile, offset_ns: int, parts: list[Part], window: Window | None = None
) -> Iterator[SampledPart]:
    """Yield what each sample within the window stands for."""
    starts = [part.start_ns for part in parts]
    stacks = [tuple(profile.frames[number] for number in stack) for stack in profile.stacks]
    waits = [any(_COLLECTIVES.search(frame.site) for frame in stack) for stack in stacks]
    before_ns = profile.began_ns + offset_ns
    for time_us, number in zip(profile.times_us, profile.samples, strict=True):
        at_ns = profile.began_ns + offset_ns + time_us * 1000
        start_ns, before_ns = before_ns, at_ns
        if window is not None:
            start_ns, at_ns = max(start_ns, window.start_ns), min(at_ns, window.end_ns)
        if at_ns <= start_ns:
            continue
        stack = stacks[number]
        index = bisect_right(starts, at_ns) - 1
        part = parts[index] if index >= 0 and at_ns <= parts[index].end_ns else None
        if part is not None:
            words = f"wait in {part.operation}" if part.doing == "wait" else part.operation
            inside = (*stack, Frame(words, part.site))
            yield SampledPart(start_ns, at_ns, part.doing, inside, is_recorded=True)
        elif stack:
            doing: Doing = "wait" if waits[number] else "work"
            yield SampledPart(start_ns, at_ns, doing, stack)
        else:
            yield SampledPart(start_ns, at_ns, "idle", (IDLE,))


def own_place(stack: tuple[Frame, ...]) -> Frame:
    """Return the innermost call that users wrote; the innermost of all, where they wrote none."""
    return next((frame for frame in reversed(stack) if not frame.is_in_library), stack[-1])


def sum_up(
    rank: int, parts: list[Part], samples: list[SampledPart] | None, window: Window
) -> RankTime:
    """Return how a rank spent the window; without samples all that is no collective is work."""
    recorded: defaultdict[str, int] = defaultdict(int)
    for part in parts:
        recorded[part.doing] += part.end_ns - part.start_ns
    sampled: defaultdict[str, float] = defaultdict(float)
    places: defaultdict[Frame, float] = defaultdict(float)
    for sample in samples or ():
        if not sample.is_recorded:
            sampled[sample.doing] += sample.seconds
        if sample.doing == "work":
            places[own_place(sample.stack)] += sample.seconds
    wait_s, exchange_s = recorded["wait"] / 1e9, recorded["exchange"] / 1e9
    rest_s = max(0.0, window.seconds - wait_s - exchange_s)
    scale = rest_s / seen_s if (seen_s := sum(sampled.values())) else 0.0
    idle_s, unrecorded_s = scale * sampled["idle"], scale * sampled["wait"]
    return RankTime(
        rank=rank,
        work_s=rest_s - idle_s - unrecorded_s,
        wait_s=wait_s + unrecorded_s,
        exchange_s=exchange_s,
        idle_s=idle_s,
        places=dict(places),
        is_sampled=samples is not None,
    )
