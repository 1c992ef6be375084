"""Blocks of rows, as a person reads them: put together, live or for good, and made to fit."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from jupyter_dist.views.outputs.grouping import Row, clip, height, merge
from jupyter_dist.views.outputs.transcript import RankTranscript

LIVE_ROWS = 100
"""Rows of a running cell whose lines are merged, at most."""
_LIVE_GROUPED_ROWS = 32
_LIVE_GROUPS = 16
_LIVE_LINE_CAP = 1000
_LIVE_GROUPED_LINE_CAP = 100
_HEAD_CAP = 8 * 1024
_LAST_OF_EACH = 10


class Block(msgspec.Struct, frozen=True):
    """Rows in order; between `before` and `after`, `left_out` lines are missing."""

    before: list[Row]
    left_out: int
    after: list[Row]

    @property
    def rows(self) -> list[Row]:
        """All of them, in order."""
        return [*self.before, *self.after]


def live_blocks(
    speakers: Mapping[int, RankTranscript], groups: Sequence[tuple[int, ...]]
) -> tuple[list[Block], int]:
    """Return the end of what there is, and the number of groups that are left out.

    Without groups the lines of all ranks are merged. It is sent again with each redraw, so there
    is the less of it the more the ranks differ.
    """
    if not speakers:
        return [], 0
    if not groups:
        return [_live_merged(speakers)], 0
    shown = groups[:_LIVE_GROUPS]
    room = max(1, _LIVE_GROUPED_ROWS // len(groups))
    blocks = []
    for ranks in shown:
        transcript = speakers[ranks[0]]
        kept = [Row(ranks, entry) for entry in transcript.last(room)]
        rows = [clip(row, _LIVE_GROUPED_LINE_CAP) for row in kept]
        earlier = max(0, transcript.line_count - count_lines(kept))
        blocks.append(Block([], earlier, rows))
    if room == 1:
        earlier = sum(block.left_out for block in blocks)
        blocks = [Block([], earlier, [row for block in blocks for row in block.after])]
    return blocks, len(groups) - len(shown)


def _live_merged(speakers: Mapping[int, RankTranscript]) -> Block:
    last = {rank: t.last(LIVE_ROWS) for rank, t in speakers.items()}
    rows = merge(last)
    earlier = sum(
        max(0, t.line_count - sum(map(height, last[rank]))) for rank, t in speakers.items()
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


def merged_block(speakers: Mapping[int, RankTranscript]) -> Block:
    """Merge the lines of all ranks."""
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
    return Block(merge(before), left_out, merge(after))


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
