"""The cells and collectives of all ranks as a trace that Perfetto and Chrome open. Pure.

A host is a process there and a rank is a thread. A cell is a slice with its collectives inside;
each of those is divided into the wait for the last rank, and the work after that. What belongs to
JAX or torch lies in a lane of its own, undivided: such a call may compute as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

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

Event = dict[str, Any]


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
        last_ns, who = (0, ()) if call.is_message else self._lasts[key]
        if not who:
            yield event
            return
        came_ns = last_ns - self._clock(seen).offset_ns if last_ns else end_ns
        came_ns = min(max(came_ns, start_ns), end_ns)
        event["args"]["last to come" if last_ns else "did not come"] = name_ranks(who)
        yield event
        if call.framework:
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
