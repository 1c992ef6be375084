"""Samples and traces of frameworks as events of the timeline: ranks side by side. Pure."""

import gzip
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from jupyter_dist.cluster.collectives.timeline import Event, Timeline
from jupyter_dist.cluster.profiling.rank_times import SampledPart
from jupyter_dist.model.ranks.stacks import Frame

_SAMPLES = 2_000_000
"""Added to the numbers of hosts, for the processes that have the samples of their ranks."""
_FRAMEWORKS = 10_000_000
"""Before the numbers of processes of frameworks,"""
_STEP = 1_000
"""of which each rank has so many."""


def sample_events(rank: int, samples: Sequence[SampledPart], timeline: Timeline) -> Iterator[Event]:
    """Yield a lane of a rank with the calls that were seen, those that go on as one slice."""
    host = timeline.hosts.get(rank, "")
    place = {"pid": _SAMPLES + list(timeline.hosts.values()).index(host) if host else _SAMPLES}
    place["tid"] = rank
    yield _name("process_name", place, f"samples of host {host}" if host else "samples")
    yield _name("thread_name", place, f"rank {rank}")
    open_calls: list[tuple[Frame, int]] = []
    last_ns = 0
    for sample in samples:
        same = 0
        for (frame, _), now in zip(open_calls, sample.stack, strict=False):
            if frame != now:
                break
            same += 1
        for frame, since_ns in reversed(open_calls[same:]):
            yield _slice(frame, (since_ns, last_ns), place, timeline)
        del open_calls[same:]
        open_calls += [(frame, sample.start_ns) for frame in sample.stack[same:]]
        last_ns = sample.end_ns
    for frame, since_ns in reversed(open_calls):
        yield _slice(frame, (since_ns, last_ns), place, timeline)


def framework_events(rank: int, packed: bytes, timeline: Timeline) -> Iterator[Event]:
    """Yield the events of one rank's own profiler, moved to the clock of all."""
    shift_us = ((timeline.offset_ns(rank) or 0) - timeline.origin_ns) / 1000
    numbers: dict[Any, int] = {}
    for event in msgspec.json.decode(gzip.decompress(packed)):
        process = event.get("pid")
        number = numbers.setdefault(process, len(numbers))
        event["pid"] = _FRAMEWORKS + _STEP * rank + min(number, _STEP - 1)
        if "ts" in event:
            event["ts"] += shift_us
        if event.get("name") == "process_name":
            event["args"] = {"name": f"rank {rank}: {event.get('args', {}).get('name', '')}"}
        yield event
    for number in numbers.values():
        yield {
            "ph": "M",
            "name": "process_sort_index",
            "pid": _FRAMEWORKS + _STEP * rank + number,
            "tid": 0,
            "args": {"sort_index": _FRAMEWORKS + _STEP * rank + number},
        }


def _slice(
    frame: Frame, span_ns: tuple[int, int], place: dict[str, int], timeline: Timeline
) -> Event:
    start_ns, end_ns = span_ns
    return {
        "ph": "X",
        "name": frame.function if frame.function != "<module>" else frame.site,
        "cat": "sample",
        **place,
        "ts": (start_ns - timeline.origin_ns) / 1000,
        "dur": max(0, end_ns - start_ns) / 1000,
        "args": {"site": frame.site, "code": frame.code},
    }


def _name(what: str, place: dict[str, int], name: str) -> Event:
    return {"ph": "M", "name": what, **place, "args": {"name": name}}
