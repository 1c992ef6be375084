"""The file of a recorder: how it is laid out, and how others read it while it is being written.

A header with two counts, then two rings of slots: cells, and calls. A slot is written first and
counted then, so what is counted is whole, unless the ring has come round: each slot carries its
index, and a reader drops what may have been overwritten while it read.
"""

import os
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jupyter_dist.model.hosts.topology import CollectiveView
from jupyter_dist.model.ranks.records import CallRecord, CellRecord, RankRecords

MAGIC = b"JDREC004"
HEADER = struct.Struct("=8sQQQ")
"""Magic, calls begun, cells begun, and one more than the rank; 0: that is not known."""
AWAITED_AT = HEADER.size
AWAITED = struct.Struct("=Q12H")
"""Number of a call, and one more than each rank whose data it waits for; 0: no more."""
HEADER_BYTES = 64
CELLS = 256
CELL = struct.Struct("=Qqq40s")
"""Index, start, end, texts: its label and the coordinator's name of it."""
CELLS_AT = HEADER_BYTES
CALLS = 2048
CALL = struct.Struct("=Qqq232s")
"""Index, sequence, start, and what is the same whenever such a call begins on one line."""
FIXED = struct.Struct("=qqq208s")
"""End (of a failure negative), bytes, root, texts: see `pack_call_texts`."""
END_AT = 24
CALLS_AT = CELLS_AT + CELLS * CELL.size
FILE_BYTES = CALLS_AT + CALLS * CALL.size

CALL_TEXT_BYTES = 208
CELL_TEXT_BYTES = 40
SITE_BYTES = 64
OPERATION_BYTES = 24
_SHAPE_BYTES = 72
_WORD_BYTES = 16
_READ_ATTEMPTS = 5
_MOST_AWAITED = 12
_HIGHEST_AWAITED = (1 << 16) - 1


class _Ring(NamedTuple):
    """One of the two rings of slots."""

    at: int
    slots: int
    slot: struct.Struct

    def place(self, index: int) -> int:
        """Where the slot of this index begins."""
        return self.at + index % self.slots * self.slot.size


_CALL_RING = _Ring(CALLS_AT, CALLS, CALL)
_CELL_RING = _Ring(CELLS_AT, CELLS, CELL)


# --- what a call waits for ---


def pack_awaited(sequence: int, ranks: Sequence[int]) -> bytes:
    """Write whose data a call of this number lacks, if they are few."""
    fits = len(ranks) <= _MOST_AWAITED and max(ranks, default=0) < _HIGHEST_AWAITED
    places = [rank + 1 for rank in ranks] if fits else []
    return AWAITED.pack(sequence, *places, *[0] * (_MOST_AWAITED - len(places)))


def _read_awaited(fd: int, sequence: int) -> tuple[int, ...]:
    """Return the ranks whose data a call of this number lacks; none: that is not known."""
    data = os.pread(fd, AWAITED.size, AWAITED_AT)
    number, *places = AWAITED.unpack(data)
    return tuple(place - 1 for place in places if place) if number == sequence else ()


# --- texts of a slot ---


def pack_call_texts(
    operation: str, reduction: str, dtype: str, shape: str, group: str, site: str
) -> bytes:
    """Write the texts of a call so that they fit: the site as its end, a long group shortened."""
    fixed = [
        cut_middle(operation, OPERATION_BYTES),
        cut_end(reduction, _WORD_BYTES),
        cut_end(dtype, _WORD_BYTES),
        cut_end(shape, _SHAPE_BYTES),
        cut_start(site, SITE_BYTES),
    ]
    output = CALL_TEXT_BYTES - sum(map(len, fixed)) - len(fixed) - 1
    return b"\0".join([*fixed, cut_middle(group, output)])


def cut_end(text: str, most_bytes: int) -> bytes:
    """Encode a text, without its end if it is too long."""
    data = text.encode(errors="replace").replace(b"\0", b"?")
    return data if len(data) <= most_bytes else _whole(data[:most_bytes])


def cut_start(text: str, most_bytes: int) -> bytes:
    """Encode a text, with `…` for its beginning if it is too long."""
    data = text.encode(errors="replace").replace(b"\0", b"?")
    if len(data) <= most_bytes:
        return data
    mark = "…".encode()
    return mark + _whole(data[len(mark) - most_bytes :])


def cut_middle(text: str, most_bytes: int) -> bytes:
    """Encode a text, with `…` for its middle if it is too long."""
    data = text.encode(errors="replace").replace(b"\0", b"?")
    if len(data) <= most_bytes:
        return data
    mark = "…".encode()
    half = max(0, most_bytes - len(mark)) // 2
    return _whole(data[:half]) + mark + _whole(data[len(data) - half :])


def _whole(data: bytes) -> bytes:
    """Leave out the half characters at both ends of a piece of UTF-8."""
    return data.decode(errors="ignore").encode()


def split_texts(data: bytes, count: int) -> list[str]:
    """Return so many texts of a slot; those at the end may be empty."""
    texts = data.rstrip(b"\0").decode(errors="replace").split("\0")
    return [*texts, *[""] * count][:count]


# --- reading ---


def read_last(path: str | os.PathLike[str], now_ns: int) -> CollectiveView | None:
    """Return the call begun last, or None when there is none to read.

    `now_ns` is CLOCK_MONOTONIC of the same machine. Only the header and two slots are read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _attempt in range(_READ_ATTEMPTS):
                counts = _read_counts(fd)
                if counts is None or not counts[0]:
                    break
                index = counts[0] - 1
                record = _read_call(os.pread(fd, CALL.size, _CALL_RING.place(index)), index)
                if record is not None:
                    cell = _read_newest_cell(fd, counts[1]) if counts[1] else None
                    is_earlier = cell is not None and record.start_ns < cell.start_ns
                    awaits = () if record.end_ns else _read_awaited(fd, record.sequence)
                    return _view(record, now_ns, is_earlier, awaits)
        finally:
            os.close(fd)
    except OSError:
        pass
    return None


def read_last_cell(path: str | os.PathLike[str]) -> CellRecord | None:
    """Return the cell begun last, one without a name if there is none; None: it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _attempt in range(_READ_ATTEMPTS):
                counts = _read_counts(fd)
                if counts is None:
                    break
                if not counts[1]:
                    return CellRecord("", 0)
                if (cell := _read_newest_cell(fd, counts[1])) is not None:
                    return cell
        finally:
            os.close(fd)
    except (OSError, struct.error):
        pass
    return None


def read_records(path: str | os.PathLike[str], rank: int, last: int = 0) -> RankRecords:
    """Return what a recorder's file holds, oldest first: so many calls of it (0: all).

    `rank` is what its rank was in the beginning; the file knows which it is now.

    Cells are those in which a call of these can have been made, and later ones.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            before = _read_counts(fd)
            if before is None:
                return RankRecords(rank, (), (), problem="its recorder could not make its file")
            calls = _read_ring(fd, _CALL_RING, before[0], last or CALLS)
            cells = _read_ring(fd, _CELL_RING, before[1], CELLS)
            after = _read_counts(fd) or before
        finally:
            os.close(fd)
    except OSError as problem:
        return RankRecords(rank, (), (), problem=problem.strerror or str(problem))
    oldest = max(0, after[0] - CALLS + 1)
    oldest_cell = max(0, after[1] - CELLS + 1)
    found = [
        record
        for index, data in calls
        if index >= oldest and (record := _read_call(data, index)) is not None
    ]
    begun = [
        cell
        for index, data in cells
        if index >= oldest_cell and (cell := _read_cell(data, index)) is not None
    ]
    first = max(oldest, before[0] - last) if last else oldest
    return RankRecords(
        after[2] - 1 if after[2] else rank,
        tuple(found),
        _cells_of(found, begun),
        omitted=oldest,
        left_out=first - oldest,
    )


def _read_counts(fd: int) -> tuple[int, int, int] | None:
    data = os.pread(fd, HEADER.size, 0)
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        return None
    _magic, calls, cells, rank = HEADER.unpack(data)
    return calls, cells, rank


def _read_ring(fd: int, ring: _Ring, count: int, most: int) -> Iterable[tuple[int, bytes]]:
    """Read the last slots that are counted, as (index, slot); those of long ago are others'."""
    size = ring.slot.size
    first = max(0, count - min(most, ring.slots))
    until_end = min(count, first - first % ring.slots + ring.slots)
    data = os.pread(fd, (until_end - first) * size, ring.place(first))
    if count > until_end:
        data += os.pread(fd, (count - until_end) * size, ring.at)
    return [
        (first + number, data[number * size : (number + 1) * size])
        for number in range(len(data) // size)
    ]


def _read_call(data: bytes, index: int) -> CallRecord | None:
    """Read a slot; None when another call is in it, or it makes no sense."""
    if len(data) < CALL.size:
        return None
    own_index, sequence, start_ns, fixed = CALL.unpack(data)
    if own_index != index:
        return None
    end_ns, nbytes, root, packed = FIXED.unpack(fixed)
    operation, reduction, dtype, shape, site, group = split_texts(packed, 6)
    return CallRecord(
        sequence=sequence,
        operation=operation,
        start_ns=start_ns,
        end_ns=abs(end_ns),
        has_failed=end_ns < 0,
        reduction=reduction,
        dtype=dtype,
        shape=shape,
        root=root,
        nbytes=nbytes,
        group=group,
        site=site,
    )


def _read_cell(data: bytes, index: int) -> CellRecord | None:
    own_index, start_ns, end_ns, packed = CELL.unpack(data)
    if own_index != index:
        return None
    label, cell_id = split_texts(packed, 2)
    return CellRecord(label, start_ns, end_ns, cell_id)


def _cells_of(calls: list[CallRecord], cells: list[CellRecord]) -> tuple[CellRecord, ...]:
    if not calls:
        return tuple(cells)
    first_ns = calls[0].start_ns
    return tuple(cell for cell in cells if not cell.end_ns or cell.end_ns >= first_ns)


def _read_newest_cell(fd: int, count: int) -> CellRecord | None:
    """Read the cell that is counted last; None when another one is in its slot by now."""
    return _read_cell(os.pread(fd, CELL.size, _CELL_RING.place(count - 1)), count - 1)


def _view(
    record: CallRecord, now_ns: int, is_earlier: bool, awaits: tuple[int, ...]
) -> CollectiveView:
    is_running = not record.end_ns
    return CollectiveView(
        sequence=record.sequence,
        operation=record.operation,
        seconds=max(0, (now_ns if is_running else record.end_ns) - record.start_ns) / 1e9,
        is_running=is_running,
        site=record.site,
        group=record.group,
        arguments=record.arguments,
        root=record.root,
        is_earlier=is_earlier,
        awaits=awaits,
    )
