"""Blocks of rows, as a person reads them: put together, live or for good, and made to fit."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, zip_longest
from operator import itemgetter

import msgspec

from jupyter_dist.views.outputs.grouping import (
    Entry,
    Row,
    clip,
    group_by,
    height,
    merge,
    merge_in_step,
)
from jupyter_dist.views.outputs.shared_states import Ranks
from jupyter_dist.views.outputs.transcript import Excerpt, Transcript

LIVE_ROWS = 100
"""Rows of a running cell whose lines are merged, at most."""
_LIVE_GROUPED_ROWS = 32
_LIVE_GROUPS = 16
_LIVE_LINE_CAP = 1000
_LIVE_GROUPED_LINE_CAP = 100
_HEAD_CAP = 8 * 1024
_LAST_OF_EACH = 10
_GAP = "gap"
"""Kind of an entry that stands for the lines left out, while lines are merged."""


class Block(msgspec.Struct, frozen=True):
    """Rows in order; between `before` and `after`, `left_out` lines are missing."""

    before: list[Row]
    left_out: int
    after: list[Row]

    @property
    def rows(self) -> list[Row]:
        """All of them, in order."""
        return [*self.before, *self.after]


def live_blocks(groups: Sequence[tuple[Ranks, Transcript]]) -> tuple[list[Block], int]:
    """Return the end of what each group said, and the number of groups that are left out.

    It is sent again with each redraw, so there is the less of it the more the ranks differ.
    """
    if not groups:
        return [], 0
    shown = groups[:_LIVE_GROUPS]
    room = max(1, _LIVE_GROUPED_ROWS // len(groups))
    blocks = []
    for ranks, transcript in shown:
        kept = [Row(ranks, entry) for entry in transcript.last(room)]
        rows = [clip(row, _LIVE_GROUPED_LINE_CAP) for row in kept]
        earlier = max(0, transcript.line_count - count_lines(kept))
        blocks.append(Block([], earlier, rows))
    if room == 1:
        earlier = sum(block.left_out for block in blocks)
        blocks = [Block([], earlier, [row for block in blocks for row in block.after])]
    return blocks, len(groups) - len(shown)


def live_merged_block(speakers: Mapping[Ranks, Transcript]) -> Block:
    """Merge the last lines of all ranks; those that said the same are one speaker."""
    last = {ranks: t.last(LIVE_ROWS) for ranks, t in speakers.items()}
    rows = merge(last)
    earlier = sum(
        len(ranks) * max(0, t.line_count - sum(map(height, last[ranks])))
        for ranks, t in speakers.items()
    )
    begin, lines = len(rows), 0
    while begin and lines < LIVE_ROWS:
        begin -= 1
        lines += height(rows[begin].entry)
    earlier += sum(len(row.ranks) * height(row.entry) for row in rows[:begin])
    return Block([], earlier, [clip(row, _LIVE_LINE_CAP) for row in rows[begin:]])


def count_lines(rows: Sequence[Row]) -> int:
    """Return how many lines these rows have; rich outputs count as one."""
    return sum(height(row.entry) for row in rows)


def merged_block(speakers: Mapping[Ranks, Transcript]) -> Block:
    """Merge the lines of all ranks in step; those that said the same are one speaker.

    Where lines of some are left out, the others go on beside that place as if it were a line.
    """
    kept = {ranks: transcript.excerpt() for ranks, transcript in speakers.items()}
    rows = merge_in_step({ranks: _with_gap(excerpt) for ranks, excerpt in kept.items()})
    gap = next((index for index, row in enumerate(rows) if row.entry.kind == _GAP), 0)
    left_out = sum(len(ranks) * excerpt.left_out for ranks, excerpt in kept.items())
    return Block(rows[:gap], left_out, [row for row in rows[gap:] if row.entry.kind != _GAP])


def blocks_by_rank(speakers: Mapping[Ranks, Transcript]) -> list[Block]:
    """Return all that each rank said, rank after rank."""
    kept = {rank: t.excerpt() for ranks, t in speakers.items() for rank in ranks}
    return [one_block((rank,), kept[rank]) for rank in sorted(kept)]


def collated_block(speakers: Mapping[Ranks, Transcript]) -> Block:
    """Put the first of what each rank said before the second of each, and so on, in rank order."""
    kept = {ranks: transcript.excerpt() for ranks, transcript in speakers.items()}
    left_out = sum(len(ranks) * excerpt.left_out for ranks, excerpt in kept.items())
    before = {ranks: excerpt.before for ranks, excerpt in kept.items()}
    after = {ranks: excerpt.after for ranks, excerpt in kept.items()}
    return Block(_collate(before), left_out, _collate(after))


def one_block(ranks: Ranks, excerpt: Excerpt) -> Block:
    """Return what ranks said that all said the same."""
    before = [Row(ranks, entry) for entry in excerpt.before]
    return Block(before, excerpt.left_out, [Row(ranks, entry) for entry in excerpt.after])


def _collate(said: Mapping[Ranks, Sequence[Entry]]) -> list[Row]:
    rows: list[Row] = []
    for each in zip_longest(*said.values()):
        entries = {ranks: at for ranks, at in zip(said, each, strict=True) if at is not None}
        looks = {ranks: (entry.kind, entry.content) for ranks, entry in entries.items()}
        alike = group_by(entries, looks.__getitem__).values()
        same = [(tuple(sorted(chain.from_iterable(of))), entries[of[0]]) for of in alike]
        rows += [Row(ranks, entry) for ranks, entry in sorted(same, key=itemgetter(0))]
    return rows


def _with_gap(excerpt: Excerpt) -> list[Entry]:
    gap = [Entry(-1, _GAP, "")] if excerpt.left_out else []
    return [*excerpt.before, *gap, *excerpt.after]


def fit_block(block: Block, budget: int, cost: Callable[[Row], int]) -> Block:
    """Leave lines out until the block costs at most `budget`; rich rows stay.

    Kept are the last few lines of everybody, then the head of the block, then its tail as far
    back as it fits. `cost` is asked for each row and is 0 for rich ones.
    """
    rows = block.rows
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
        block.left_out + sum(len(rows[index].ranks) * height(rows[index].entry) for index in gone),
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
