"""Which calls of different ranks belong together, how each stands, and who has not come. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from jupyter_dist.model.ranks.records import (
    CallRecord,
    HostRecords,
    RankRecords,
    group_ranks,
    name_group,
)

StateKind = Literal[
    "done", "waiting", "failed", "lost", "never", "other", "older", "unread", "apart"
]


class CallKey(msgspec.Struct, frozen=True):
    """What calls that belong together have in common.

    Numbers begin again with each generation, and that changes only between cells.
    """

    cell_id: str
    """Empty when the cell is not known any more, or there was none."""
    group: str
    counter: str
    sequence: int


class SeenRank(msgspec.Struct, frozen=True):
    """What is known of one rank, with what tells its clock."""

    host: str
    records: RankRecords
    now_ns: int
    """When it was read, by the clock of its records."""
    offset_ns: int
    """What to add to that clock for the time of day."""
    keys: tuple[CallKey, ...]
    """Of its calls, one by one."""

    @property
    def rank(self) -> int:
        """Its number."""
        return self.records.rank

    @property
    def is_cut(self) -> bool:
        """It has made calls before those that are known."""
        return bool(self.records.omitted or self.records.left_out)


class SharedCall(msgspec.Struct, frozen=True):
    """One collective, as the ranks have called it that take part in it."""

    key: CallKey
    calls: dict[int, CallRecord]
    missing: tuple[int, ...]
    """Those that have not called it."""
    unknown: tuple[int, ...]
    """Those of which it is not known: it was too long ago, or nothing could be read."""


def see_ranks(hosts: Iterable[HostRecords]) -> dict[int, SeenRank]:
    """Return every rank of all hosts, in rank order."""
    seen = [
        SeenRank(
            host.host,
            records,
            host.monotonic_ns,
            host.time_ns - host.monotonic_ns,
            _find_keys(records),
        )
        for host in hosts
        for records in host.ranks
        if not records.problem
    ]
    # Of a rank that was replaced the engine that lives counts: it comes last.
    seen.sort(key=lambda each: (each.rank, not each.records.has_ended))
    return {each.rank: each for each in seen}


def _find_keys(records: RankRecords) -> tuple[CallKey, ...]:
    starts = [cell.start_ns for cell in records.cells]
    keys = []
    for call in records.calls:
        index = bisect_right(starts, call.start_ns) - 1
        cell_id = ""
        if index >= 0:
            cell = records.cells[index]
            cell_id = cell.cell_id if not cell.end_ns or call.start_ns <= cell.end_ns else ""
        keys.append(CallKey(cell_id, call.group, call.counter, call.sequence))
    return tuple(keys)


def share_calls(ranks: dict[int, SeenRank], world_size: int) -> dict[CallKey, SharedCall]:
    """Put together what belongs together; messages, which concern single ranks, are left out."""
    calls: dict[CallKey, dict[int, CallRecord]] = {}
    for rank, seen in ranks.items():
        for key, call in zip(seen.keys, seen.records.calls, strict=True):
            if not call.is_message:
                calls.setdefault(key, {})[rank] = call
    windows = {rank: _Window(seen) for rank, seen in ranks.items()}
    return {key: _share(key, found, windows, world_size) for key, found in calls.items()}


class _Window:
    """How far back the calls of a rank are known."""

    def __init__(self, seen: SeenRank) -> None:
        self._is_cut = seen.is_cut
        self.offset_ns = seen.offset_ns
        calls = seen.records.calls
        self._first_ns = calls[0].start_ns + seen.offset_ns if calls else seen.now_ns
        self._oldest: dict[tuple[str, str, str], int] = {}
        for key in seen.keys:
            self._oldest.setdefault((key.cell_id, key.group, key.counter), key.sequence)

    def reaches(self, key: CallKey, start_ns: int) -> bool:
        """Return whether a call that others made then would be known of this rank as well."""
        if not self._is_cut:
            return True
        oldest = self._oldest.get((key.cell_id, key.group, key.counter))
        # Without a number to compare, times of day have to do.
        return start_ns >= self._first_ns if oldest is None else key.sequence >= oldest


def _share(
    key: CallKey, calls: dict[int, CallRecord], windows: dict[int, _Window], world_size: int
) -> SharedCall:
    members: Sequence[int] = group_ranks(key.group) if key.group else range(world_size)
    start_ns = min(call.start_ns + windows[rank].offset_ns for rank, call in calls.items())
    missing: list[int] = []
    unknown: list[int] = []
    for rank in members:
        if rank in calls:
            continue
        window = windows.get(rank)
        is_known = window is not None and window.reaches(key, start_ns)
        (missing if is_known else unknown).append(rank)
    return SharedCall(key, calls, tuple(missing), tuple(unknown))


class CallState(msgspec.Struct, frozen=True):
    """What one rank did with a call."""

    kind: StateKind
    """done, waiting (it is inside), failed, lost (it ended inside), never (it has not called it),
    other (it called something else), older (not known any more), unread, apart (takes no part).
    """
    seconds: float = 0.0
    """How long it took, or has taken so far."""


def state_of(call: CallRecord, seen: SeenRank) -> CallState:
    """Return how a call stands on its rank."""
    if call.end_ns:
        seconds = max(0, call.end_ns - call.start_ns) / 1e9
        return CallState("failed" if call.has_failed else "done", seconds)
    seconds = max(0, seen.now_ns - call.start_ns) / 1e9
    return CallState("lost" if seen.records.has_ended else "waiting", seconds)


def write_call(call: CallRecord) -> str:
    """Format a call as in the cell, with its group unless that is all ranks or a framework's."""
    if call.framework:
        return str(call)
    return f"{call} in group {name_group(call.group)}" if call.group else str(call)
