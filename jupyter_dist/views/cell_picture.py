"""What is to be seen of a cell: blocks of rows, values, errors and notes, ready to be rendered."""

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence

import msgspec

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.model.crash import CrashReport
from jupyter_dist.model.text import without_seconds
from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.views.grouping import (
    Entry,
    ErrorGroup,
    Row,
    group_equal,
    group_errors,
    merge,
    outliers_first,
)
from jupyter_dist.views.rich import RichOutput
from jupyter_dist.views.transcript import RankTranscript

MERGED_UP_TO = 8
"""Ranks up to which lines are merged one by one; above, ranks with identical output are grouped."""
STRIP_ABOVE = 64
"""Ranks above which a strip shows the state of each."""
LIVE_ROWS = 100
_NOTES_CAP = 20
_HEAD_CAP = 8 * 1024
_LAST_OF_EACH = 10


class Block(msgspec.Struct, frozen=True):
    """Rows in order; between `before` and `after`, `left_out` lines are missing."""

    before: list[Row]
    left_out: int
    after: list[Row]


class ValueGroup(msgspec.Struct, frozen=True):
    """The value of the last expression and the ranks where it is that."""

    ranks: tuple[int, ...]
    value: RichOutput


class CellPicture(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a renderer shows of a cell."""

    blocks: list[Block] = []
    values: list[ValueGroup] = []
    errors: tuple[ErrorGroup, ...] = ()
    crashes: tuple[CrashReport, ...] = ()
    """Of lost ranks whose end is known; they are in no group of errors."""
    survivors: tuple[int, ...] = ()
    """Ranks of the cell that can go on."""
    raised_rank: int | None = None
    """The rank whose traceback is shown elsewhere."""
    notes: tuple[str, ...] = ()
    states: dict[str, tuple[int, ...]] = {}
    """For the strip: state of a rank -> ranks. Empty where there is no strip."""
    header: str = ""
    log_hint: str = ""

    @property
    def is_live(self) -> bool:
        """The cell still runs."""
        return bool(self.header)

    @property
    def is_empty(self) -> bool:
        """There is nothing to show."""
        said = self.blocks or self.values or self.notes or self.header
        return not (said or self.errors or self.crashes)

    def only_what_went_wrong(self) -> "CellPicture":
        """Leave out what the ranks said."""
        return CellPicture(
            errors=self.errors,
            crashes=self.crashes,
            survivors=self.survivors,
            raised_rank=self.raised_rank,
        )


class CellRecord:
    """Take in everything that happens in a cell, and make pictures of it.

    `rich` says whose rich outputs are taken: None those of all ranks, identical ones once;
    "all" those of all ranks, each for itself; or a set of ranks.
    """

    def __init__(self, world_size: int, *, rich: str | frozenset[int] | None = None) -> None:
        self.world_size = world_size
        self.finished: dict[int, RankFinished] = {}
        self.notes: list[str] = []
        self._rich = rich
        self._orders = itertools.count()
        self._transcripts: dict[int, RankTranscript] = {}

    @property
    def running_count(self) -> int:
        """Number of ranks that have not finished."""
        return max(0, self.world_size - len(self.finished))

    def take_output(self, rank: int, outputs: Sequence[Output]) -> list[Entry]:
        """Take in outputs; return what is new and whole among them."""
        with_rich = not isinstance(self._rich, frozenset) or rank in self._rich
        return self._transcript(rank).take(outputs, with_rich=with_rich)

    def take_finished(self, result: RankFinished) -> list[Entry]:
        """Take in how a rank ended; return the lines that this ends."""
        self.finished[result.rank] = result
        transcript = self._transcript(result.rank)
        if transcript.value is None and result.value_repr is not None:
            plain = {"text/plain": result.value_repr}
            transcript.take([Output("value", data=plain)])
        return transcript.end_lines()

    @property
    def has_something(self) -> bool:
        """There is a line, a rich output or a note to show."""
        return bool(self.notes) or any(not t.is_empty for t in self._transcripts.values())

    def take_note(self, text: str) -> bool:
        """Take in a note; tell whether it says more than the last one.

        One that differs from the last in its seconds only replaces it.
        """
        is_same = bool(self.notes) and without_seconds(self.notes[-1]) == without_seconds(text)
        if is_same:
            self.notes.pop()
        self.notes = [*self.notes, text][-_NOTES_CAP:]
        return not is_same

    def live_picture(self) -> CellPicture:
        """Show the end of what there is, and who still runs."""
        return CellPicture(
            blocks=self._live_blocks(),
            notes=tuple(self.notes[-1:]),
            states=self._states(),
            header=self.header(),
        )

    def final_picture(self, raised_rank: int | None = None, log_hint: str = "") -> CellPicture:
        """Show everything that is kept."""
        return CellPicture(
            blocks=self._blocks(),
            values=self.values(),
            errors=group_errors(self._without_crashes()),
            crashes=tuple(each.crash for each in self.finished.values() if each.crash is not None),
            survivors=self._survivors(),
            raised_rank=raised_rank,
            notes=tuple(self.notes),
            states=self._states(),
            log_hint=log_hint,
        )

    def header(self) -> str:
        """Say how many ranks run and how the others ended: `▶ 3 running · 1 done`."""
        counts: dict[str, int] = {}
        for result in self.finished.values():
            status = "done" if result.status == "ok" else result.status.replace("_", " ")
            counts[status] = counts.get(status, 0) + 1
        told = [f"{count} {status}" for status, count in sorted(counts.items())]
        if self.running_count:
            told.insert(0, f"{self.running_count} running")
        return "▶ " + " · ".join(told)

    def values(self) -> list[ValueGroup]:
        """Give the distinct values of the last expression, in rank order."""
        found = {rank: t.value for rank, t in self._transcripts.items() if t.value is not None}
        prints: dict[int, Hashable] = {rank: v.fingerprint for rank, v in found.items()}
        return [ValueGroup(ranks, found[ranks[0]]) for ranks in group_equal(prints)]

    def _without_crashes(self) -> dict[int, RankFinished]:
        return {rank: each for rank, each in self.finished.items() if each.crash is None}

    def _survivors(self) -> tuple[int, ...]:
        return tuple(sorted(rank for rank, r in self.finished.items() if r.status != "lost"))

    def _transcript(self, rank: int) -> RankTranscript:
        transcript = self._transcripts.get(rank)
        if transcript is None:
            transcript = self._transcripts[rank] = RankTranscript(self._orders)
        return transcript

    def _speakers(self) -> dict[int, RankTranscript]:
        return {rank: t for rank, t in sorted(self._transcripts.items()) if not t.is_empty}

    def _groups(self) -> list[tuple[int, ...]]:
        speakers = self._speakers()
        if self._rich == "all":
            return outliers_first([(rank,) for rank in speakers])
        return outliers_first(group_equal({rank: t.fingerprint for rank, t in speakers.items()}))

    def _blocks(self) -> list[Block]:
        speakers = self._speakers()
        if self.world_size <= MERGED_UP_TO:
            return [_merged_block(speakers, self._rich == "all")] if speakers else []
        blocks = []
        for ranks in self._groups():
            kept = speakers[ranks[0]].excerpt()
            before = [Row(ranks, entry) for entry in kept.before]
            after = [Row(ranks, entry) for entry in kept.after]
            blocks.append(Block(before, kept.left_out, after))
        return blocks

    def _live_blocks(self) -> list[Block]:
        speakers = self._speakers()
        if not speakers:
            return []
        if self.world_size <= MERGED_UP_TO:
            rows = merge({rank: t.last(LIVE_ROWS) for rank, t in speakers.items()})
            earlier = sum(max(0, t.line_count - LIVE_ROWS) for t in speakers.values())
            earlier += sum(len(row.ranks) for row in rows[:-LIVE_ROWS])
            return [Block([], earlier, rows[-LIVE_ROWS:])]
        groups = self._groups()
        room = max(2, LIVE_ROWS // len(groups))
        blocks = []
        for ranks in groups[: LIVE_ROWS // 2]:
            transcript = speakers[ranks[0]]
            rows = [Row(ranks, entry) for entry in transcript.last(room)]
            blocks.append(Block([], max(0, transcript.line_count - room), rows))
        return blocks

    def _states(self) -> dict[str, tuple[int, ...]]:
        if self.world_size <= STRIP_ABOVE:
            return {}
        known = self._transcripts.keys() | self.finished.keys()
        if all(rank < self.world_size for rank in known):
            known = set(range(self.world_size))
        running = "running"
        states: dict[int, Hashable] = {
            rank: self.finished[rank].status if rank in self.finished else running for rank in known
        }
        return {str(states[ranks[0]]): ranks for ranks in group_equal(states)}


def _merged_block(speakers: Mapping[int, RankTranscript], is_rich_apart: bool) -> Block:
    kept = {rank: transcript.excerpt() for rank, transcript in speakers.items()}
    left_out = sum(excerpt.left_out for excerpt in kept.values())
    gaps = [t.first_left_out for t in speakers.values() if t.first_left_out is not None]
    before = {rank: list(excerpt.before) for rank, excerpt in kept.items()}
    after = {rank: list(excerpt.after) for rank, excerpt in kept.items()}
    if gaps:
        # Ranks without a gap of their own are cut where the first other one has its gap.
        for rank, transcript in speakers.items():
            if transcript.first_left_out is None:
                before[rank] = [entry for entry in after[rank] if entry.order < min(gaps)]
                after[rank] = [entry for entry in after[rank] if entry.order >= min(gaps)]
    if is_rich_apart:
        for part in (before, after):
            for rank, entries in part.items():
                part[rank] = [_own(entry, rank) for entry in entries]
    return Block(merge(before), left_out, merge(after))


def _own(entry: Entry, rank: int) -> Entry:
    if entry.rich is None:
        return entry
    return Entry(entry.order, entry.kind, f"{entry.content}@{rank}", entry.rich)


def fit_block(block: Block, budget: int, cost: Callable[[Row], int]) -> Block:
    """Leave lines out until the block costs at most `budget`; rich rows stay.

    Kept are the last few lines of everybody, then the head of the block, then its tail as far
    back as it fits. `cost` is asked for each row and is 0 for rich ones.
    """
    rows = [*block.before, *block.after]
    kept = {index for index, row in enumerate(rows) if row.entry.rich is not None}
    spent = 0
    for indices, limit in (
        (_last_of_each(rows), budget // 2),
        (range(len(rows)), budget // 2 + min(_HEAD_CAP, budget // 8)),
        (range(len(rows) - 1, -1, -1), budget),
    ):
        for index in indices:
            own = 0 if index in kept else cost(rows[index])
            if spent + own > limit:
                break
            spent += own
            kept.add(index)
    gone = [index for index in range(len(rows)) if index not in kept]
    ends = ([len(block.before)] if block.left_out else []) + gone[:1]
    gap = min(ends, default=0)
    return Block(
        [rows[index] for index in range(gap) if index in kept],
        block.left_out + sum(len(rows[index].ranks) for index in gone),
        [rows[index] for index in range(gap, len(rows)) if index in kept],
    )


def _last_of_each(rows: Sequence[Row]) -> list[int]:
    """Find the last rows of each set of ranks, so that a flood of one does not drown the others."""
    seen: dict[tuple[int, ...], int] = {}
    found = []
    for index in range(len(rows) - 1, -1, -1):
        count = seen[rows[index].ranks] = seen.get(rows[index].ranks, 0) + 1
        if count <= _LAST_OF_EACH:
            found.append(index)
    return found


def record_of(result: SpmdResult) -> CellRecord:
    """Make the record of a finished cell from its result."""
    record = CellRecord(len(result))
    for kind in ("stdout", "stderr"):
        lines = {each.rank: _whole_lines(getattr(each, kind)) for each in result}
        # Line by line over the ranks, as if they had printed in step.
        for step in itertools.zip_longest(*lines.values()):
            for rank, line in zip(lines, step, strict=True):
                if line is not None:
                    record.take_output(rank, [Output(kind, line)])
    for each in result:
        record.take_output(each.rank, each.displays)
        record.take_finished(
            RankFinished(
                each.rank, each.status, each.duration_s, each.value_repr, each.error, each.crash
            )
        )
    return record


def _whole_lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")] if text else []
