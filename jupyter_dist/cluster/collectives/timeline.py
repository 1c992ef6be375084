"""The cells and collectives of all ranks as a trace that Perfetto and Chrome open. Pure.

A host is a process there and a rank is a thread. A cell is a slice with its collectives inside;
each of those is divided into the wait for the last rank, and the work after that. What belongs to
JAX or torch lies in a lane of its own, undivided: such a call may compute as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from jupyter_dist.cluster.collectives.clocks import HostClock, bring_together
from jupyter_dist.cluster.collectives.shared_calls import (
    CallKey,
    SeenRank,
    SharedCall,
    see_ranks,
    share_calls,
)
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.records import CallRecord, CellRecord, HostRecords
from jupyter_dist.text.plurals import count_of

MADE_BY = "jupyter-dist timeline"
_LANE_STEP = 1_000_000
"""Between the thread numbers of calls that one rank made at the same time."""
_MOST_LANES = 100
"""Of one rank, where they are sorted."""
_COMMON = 1_000_000
"""The number of the process whose threads have the collectives of all ranks."""

Event = dict[str, Any]


class TimedCall(msgspec.Struct, frozen=True):
    """One call of one rank, in times of day of the first host."""

    call: CallRecord
    start_ns: int
    came_ns: int
    """When the last rank came: until then it has waited. 0: that is not known."""
    end_ns: int
    """The time of reading, if it runs still."""


class Timeline:
    """What is known of all ranks, on one time axis."""

    def __init__(
        self,
        cluster: str,
        hosts: Sequence[HostRecords],
        problems: Mapping[str, str],
        world_size: int,
    ) -> None:
        self._cluster = cluster
        self._problems = problems
        self._seen = see_ranks(hosts)
        self._shared = share_calls(self._seen, world_size)
        self._clocks = bring_together(self._seen, self._shared.values())
        self._lasts = {key: self._find_last(call) for key, call in self._shared.items()}
        records = [seen.records for seen in self._seen.values()]
        self.rank_count = len(records)
        self.cell_count = len({cell.cell_id for each in records for cell in each.cells})
        self.call_count = sum(len(each.calls) for each in records)
        self.forgotten_count = sum(each.omitted for each in records)
        """Older calls that recorders have forgotten."""
        self._origin_ns = min(map(self._find_begin, self._seen.values()), default=0)

    def metadata(self) -> dict[str, Any]:
        """Return where the trace comes from, and what was done to the clocks."""
        begin = datetime.fromtimestamp(self._origin_ns / 1e9, tz=UTC)
        return {
            "made by": MADE_BY,
            "cluster": self._cluster,
            "begins at": begin.isoformat(timespec="milliseconds"),
            "clocks": {clock.host: describe_clock(clock) for clock in self._clocks.values()},
            "forgotten calls": self.forgotten_count,
            "problems": dict(self._problems),
        }

    def events(self) -> Iterator[Event]:
        """Yield the events one by one: names first, then the slices of each rank."""
        numbers = {host: number for number, host in enumerate(self._clocks, 1)}
        for host, number in numbers.items():
            yield _name("process_name", number, 0, name=f"host {host}")
            yield _name("process_labels", number, 0, labels=describe_clock(self._clocks[host]))
            yield _name("process_sort_index", number, 0, sort_index=number)
        for seen in self._seen.values():
            yield from self._rank_events(seen, numbers[seen.host])

    @property
    def origin_ns(self) -> int:
        """The moment at which the trace begins, as time of day of the first host."""
        return self._origin_ns

    @property
    def hosts(self) -> dict[int, str]:
        """The host of each rank that is known."""
        return {rank: seen.host for rank, seen in self._seen.items()}

    def offset_ns(self, rank: int) -> int | None:
        """Return what to add to a rank's CLOCK_MONOTONIC for the time of day of the first host."""
        return self._clock(self._seen[rank]).offset_ns if rank in self._seen else None

    def known_since_ns(self, rank: int) -> int:
        """Return from when on all calls of a rank are known; 0: from the beginning."""
        seen = self._seen[rank]
        if not seen.is_cut or not seen.records.calls:
            return 0
        return seen.records.calls[0].start_ns + self._clock(seen).offset_ns

    def calls_of(self, rank: int) -> Iterator[TimedCall]:
        """Yield the calls of a rank, each with the moment until which it waited for others."""
        seen = self._seen[rank]
        offset_ns = self._clock(seen).offset_ns
        for key, call in zip(seen.keys, seen.records.calls, strict=True):
            came_ns, _ = self._coming(key, call, seen)
            start_ns, end_ns = call.start_ns, call.end_ns or seen.now_ns
            came_ns = came_ns and came_ns + offset_ns
            yield TimedCall(call, start_ns + offset_ns, came_ns, end_ns + offset_ns)

    def common_events(self) -> Iterator[Event]:
        """Yield a lane of its own with each collective, from the first to come to the last end."""
        yield _name("process_name", _COMMON, 0, name="collectives of all ranks")
        yield _name("process_sort_index", _COMMON, 0, sort_index=0)
        ends_ns: list[int] = []
        for first_ns, key, shared in self._collectives_in_order():
            end_ns = max(self._end_of(rank, call) for rank, call in shared.calls.items())
            # Groups work side by side, and slices of one thread may not overlap by half.
            lane = next((n for n, busy in enumerate(ends_ns) if busy <= first_ns), len(ends_ns))
            ends_ns[lane : lane + 1] = [end_ns]
            call = next(iter(shared.calls.values()))
            last_ns, who = self._lasts[key]
            came = "last to come" if last_ns else "did not come"
            yield {
                "ph": "X",
                "name": call.operation,
                "cat": key.counter,
                "pid": _COMMON,
                "tid": lane,
                "ts": (first_ns - self._origin_ns) / 1000,
                "dur": max(0, end_ns - first_ns) / 1000,
                "args": {
                    "number": key.sequence,
                    "site": call.site,
                    **({came: name_ranks(who)} if who else {}),
                    **({"waited, ms": (last_ns - first_ns) / 1e6} if last_ns else {}),
                },
            }

    def _collectives_in_order(self) -> list[tuple[int, CallKey, SharedCall]]:
        found = []
        for key, shared in self._shared.items():
            starts = (
                call.start_ns + self._clock(self._seen[rank]).offset_ns
                for rank, call in shared.calls.items()
            )
            found.append((min(starts), key, shared))
        return sorted(found, key=lambda each: each[0])

    def _end_of(self, rank: int, call: CallRecord) -> int:
        seen = self._seen[rank]
        return (call.end_ns or seen.now_ns) + self._clock(seen).offset_ns

    def _coming(
        self, key: CallKey, call: CallRecord, seen: SeenRank
    ) -> tuple[int, tuple[int, ...]]:
        """Return until when a rank waited, by its clock, and for whom; 0: it is not known."""
        last_ns, who = (0, ()) if call.is_message else self._lasts[key]
        if not who or call.framework:
            return 0, who
        end_ns = call.end_ns or seen.now_ns
        came_ns = last_ns - self._clock(seen).offset_ns if last_ns else end_ns
        return min(max(came_ns, call.start_ns), end_ns), who

    def _clock(self, seen: SeenRank) -> HostClock:
        return self._clocks[seen.host]

    def _find_begin(self, seen: SeenRank) -> int:
        """Find when the first that is known of a rank began; when it was read, if nothing is."""
        starts = [cell.start_ns for cell in seen.records.cells]
        starts += [call.start_ns for call in seen.records.calls]
        return min(starts, default=seen.now_ns) + self._clock(seen).offset_ns

    def _find_last(self, call: SharedCall) -> tuple[int, tuple[int, ...]]:
        """Find when the last rank came (0: someone has not, or it is not known), and which."""
        if call.missing or call.unknown:
            return 0, call.missing if not call.unknown else ()
        starts = {
            rank: own.start_ns + self._clock(self._seen[rank]).offset_ns
            for rank, own in call.calls.items()
        }
        last_ns = max(starts.values())
        return last_ns, tuple(rank for rank, start_ns in starts.items() if start_ns == last_ns)

    def _rank_events(self, seen: SeenRank, process: int) -> Iterator[Event]:
        lanes = _Lanes(seen)
        for number, lane_name in enumerate(lanes.names):
            thread = seen.rank + number * _LANE_STEP
            name = f"rank {seen.rank}{lane_name}"
            yield _name("thread_name", process, thread, name=name)
            yield _name(
                "thread_sort_index", process, thread, sort_index=_MOST_LANES * seen.rank + number
            )
        for cell in seen.records.cells:
            yield self._cell_event(cell, seen, process)
        for key, call, lane in zip(seen.keys, seen.records.calls, lanes.of_calls, strict=True):
            place = (process, seen.rank + lane * _LANE_STEP)
            yield from self._call_events(key, call, seen, place)

    def _cell_event(self, cell: CellRecord, seen: SeenRank, process: int) -> Event:
        end_ns = cell.end_ns or seen.now_ns
        place = (process, seen.rank)
        event = self._slice(cell.label, "cell", place, (cell.start_ns, end_ns), seen)
        event["args"] = {"cell": cell.cell_id, **_ending(cell.end_ns, seen)}
        return event

    def _call_events(
        self, key: CallKey, call: CallRecord, seen: SeenRank, place: tuple[int, int]
    ) -> Iterator[Event]:
        start_ns, end_ns = call.start_ns, call.end_ns or seen.now_ns
        event = self._slice(call.operation, call.counter, place, (start_ns, end_ns), seen)
        event["args"] = _describe_call(call, seen)
        came_ns, who = self._coming(key, call, seen)
        if who:
            came = "last to come" if self._lasts[key][0] else "did not come"
            event["args"][came] = name_ranks(who)
        yield event
        if not came_ns:
            return
        if came_ns > start_ns:
            name = f"wait for {name_ranks(who)}"
            # A nanosecond less: viewers round, and then it would reach into what follows.
            yield self._slice(name, "wait", place, (start_ns, came_ns - 1), seen)
        if end_ns > came_ns:
            yield self._slice("work", "work", place, (came_ns, end_ns), seen)

    def _slice(
        self,
        name: str,
        category: str,
        place: tuple[int, int],
        span: tuple[int, int],
        seen: SeenRank,
    ) -> Event:
        start_ns = span[0] + self._clock(seen).offset_ns - self._origin_ns
        return {
            "ph": "X",
            "name": name,
            "cat": category,
            "pid": place[0],
            "tid": place[1],
            "ts": start_ns / 1000,
            "dur": max(0, span[1] - span[0]) / 1000,
        }


class _Lanes:
    """Which calls of a rank lie beside others: slices of one thread may not overlap by half."""

    def __init__(self, seen: SeenRank) -> None:
        self._seen = seen
        ends: dict[tuple[str, int], int] = {("", 0): 0}
        keys: list[tuple[str, int]] = []
        cells = iter([*seen.records.cells, None])
        cell = next(cells)
        for call in seen.records.calls:
            while cell is not None and cell.end_ns and cell.end_ns <= call.start_ns:
                cell = next(cells)
            lane = 0 if call.framework else self._first_lane(call, cell)
            while ends.get((call.framework, lane), 0) > call.start_ns:
                lane += 1
            keys.append((call.framework, lane))
            ends[keys[-1]] = self._end_of(call)
        own = max(lane for framework, lane in ends if not framework)
        ordered = [("", lane) for lane in range(own + 1)]
        ordered += sorted(key for key in ends if key[0])
        numbers = {key: number for number, key in enumerate(ordered)}
        self.of_calls = [numbers[key] for key in keys]
        self.names = [
            f"{f', {framework}' if framework else ''}{', also' if lane else ''}"
            for framework, lane in ordered
        ]
        """What stands behind the rank's name, the main lane's first."""

    def _end_of(self, slice_: CallRecord | CellRecord) -> int:
        return slice_.end_ns or self._seen.now_ns

    def _first_lane(self, call: CallRecord, cell: CellRecord | None) -> int:
        """Keep what does not lie within the cell out of its lane."""
        if cell is None:
            return 0
        reaches_out = call.start_ns < self._end_of(cell) < self._end_of(call)
        begins_early = call.start_ns < cell.start_ns < self._end_of(call)
        return int(reaches_out or begins_early)


def describe_clock(clock: HostClock) -> str:
    """Return what was done to a host's clock."""
    if clock.samples:
        count = count_of(clock.samples, "collective")
        return f"moved by {clock.correction_ns / 1e6:+.3f} ms, after {count}"
    return "time of day"


def _describe_call(call: CallRecord, seen: SeenRank) -> dict[str, Any]:
    facts: dict[str, Any] = {"call": str(call), "number": call.sequence, "site": call.site}
    if call.dtype:
        facts |= {"bytes": call.nbytes, "dtype": call.dtype, "shape": call.shape}
    elif call.nbytes:
        facts["bytes"] = call.nbytes
    if call.group:
        facts["group"] = call.group
    if call.has_failed:
        facts["outcome"] = "failed"
    return facts | _ending(call.end_ns, seen)


def _ending(end_ns: int, seen: SeenRank) -> dict[str, str]:
    if end_ns:
        return {}
    return {"outcome": "its rank ended in it" if seen.records.has_ended else "has not ended"}


def _name(what: str, process: int, thread: int, **facts: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": facts}
