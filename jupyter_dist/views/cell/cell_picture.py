"""What is to be seen of a cell: blocks of rows, values, errors and notes, ready to be rendered."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec

from jupyter_dist.cluster.result import RankResult
from jupyter_dist.model.ranks.crash import CrashReport
from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.text.lists import Passing
from jupyter_dist.text.sizes import without_measures
from jupyter_dist.views.outputs.blocks import LIVE_ROWS, Block, live_blocks, merged_block
from jupyter_dist.views.outputs.grouping import (
    Entry,
    ErrorGroup,
    Row,
    group_equal,
    group_errors,
    outliers_first,
)
from jupyter_dist.views.outputs.hidden_outputs import HiddenOutputs
from jupyter_dist.views.outputs.rich_outputs import RichOutput
from jupyter_dist.views.outputs.transcript import RankTranscript
from jupyter_dist.views.progress.folded_bars import BarTable, FoldedBar

MERGED_UP_TO = 8
"""Ranks up to which lines are merged one by one; above, ranks with identical output are grouped."""
STRIP_ABOVE = 64
"""Ranks above which a strip shows the state of each."""
_NOTES_CAP = 20
_OF_THE_MOMENT = re.compile(
    r"; ranks? [\d,-]+ still runs? this cell \(■ stops that\)$"
    r"|; ■ (?:releases them|ends that|may not reach .*)$",
    re.MULTILINE,
)
"""What a note says of ranks at work, and of ■: of no use once they have all ended."""


class ValueGroup(msgspec.Struct, frozen=True):
    """The value of the last expression and the ranks where it is that."""

    ranks: tuple[int, ...]
    value: RichOutput


class CellPicture(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a renderer shows of a cell."""

    blocks: list[Block] = []
    bars: tuple[FoldedBar, ...] = ()
    values: list[ValueGroup] = []
    errors: tuple[ErrorGroup, ...] = ()
    crashes: tuple[CrashReport, ...] = ()
    """Of lost ranks whose end is known; they are in no group of errors."""
    survivors: tuple[int, ...] = ()
    """Ranks of the cell that can go on."""
    raised_rank: int | None = None
    """The rank whose traceback is shown elsewhere."""
    notes: tuple[str, ...] = ()
    hidden: str = ""
    """One sentence about what ranks said that nobody wants to see."""
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
        said = self.blocks or self.bars or self.values or self.notes or self.header or self.hidden
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

    `shown` are the ranks whose outputs are taken (None: all); those of others are only counted.
    """

    def __init__(self, world_size: int, shown: frozenset[int] | None = None) -> None:
        self.world_size = world_size
        self.finished: dict[int, RankFinished] = {}
        self.notes: list[str] = []
        self._shown = shown
        self._hidden = HiddenOutputs()
        shown_count = world_size if shown is None else min(world_size, len(shown))
        self._bars = BarTable(shown_count)
        self._merges_lines = shown_count <= MERGED_UP_TO
        """So few ranks are shown that their lines stand side by side in order of arrival."""
        orders = itertools.count()
        self._transcripts = defaultdict[int, RankTranscript](lambda: RankTranscript(orders))

    @property
    def running_count(self) -> int:
        """Number of ranks that have not finished."""
        return max(0, self.world_size - len(self.finished))

    def take_output(self, rank: int, outputs: Sequence[Output]) -> list[Entry]:
        """Take in outputs; return what is new and whole among them."""
        if not self._is_shown(rank):
            self._hidden.take(rank, outputs)
            return []
        for output in outputs:
            if output.kind == "progress":
                self._take_bar(rank, output.data)
            elif output.kind == "clear_output":
                self._bars.clear(rank)
        return self._transcripts[rank].take(outputs)

    def _take_bar(self, rank: int, state: Mapping[str, Any]) -> None:
        try:
            self._bars.take(rank, state)
        except ValueError as problem:
            self._add_note(f"a progress bar of rank {rank} cannot be drawn: {problem}")

    def take_finished(self, result: RankFinished) -> list[Entry]:
        """Take in how a rank ended; return the lines that this ends."""
        self.finished[result.rank] = result
        if not self._is_shown(result.rank):
            return []
        transcript = self._transcripts[result.rank]
        if transcript.value is None and result.value_repr is not None:
            plain = {"text/plain": result.value_repr}
            transcript.take([Output("value", data=plain)])
        return transcript.end_lines()

    @property
    def has_something(self) -> bool:
        """There is a line, a rich output or a note to show."""
        said = any(not t.is_empty for t in self._transcripts.values())
        return bool(self.notes) or said or bool(self._bars)

    def take_note(self, text: str) -> bool:
        """Take in a note; tell whether it says more than the last one.

        One that differs from the last in its seconds only replaces it. An empty one takes the
        passing ones away.
        """
        if not text:
            self.notes = [note for note in self.notes if not isinstance(note, Passing)]
            return False
        is_same = bool(self.notes) and without_measures(self.notes[-1]) == without_measures(text)
        if is_same:
            self.notes.pop()
        self._add_note(text)
        return not is_same

    def _add_note(self, text: str) -> None:
        if self.notes[-1:] == [text]:
            return
        self.notes.append(text)
        if len(self.notes) > _NOTES_CAP:
            passing = (i for i, note in enumerate(self.notes) if isinstance(note, Passing))
            del self.notes[next(passing, 0)]

    def live_picture(self) -> CellPicture:
        """Show the end of what there is, and who still runs."""
        groups = [] if self._merges_lines else self._groups()
        blocks, more_groups = live_blocks(self._speakers(), groups)
        more = f" · the output of {more_groups} more groups of ranks" if more_groups else ""
        return CellPicture(
            blocks=blocks,
            bars=self.bars(),
            notes=tuple(self.notes[-1:]),
            states=self._states(),
            header=self.header() + more,
        )

    def final_picture(self, raised_rank: int | None = None, log_hint: str = "") -> CellPicture:
        """Show everything that is kept."""
        ends = self.finished
        return CellPicture(
            blocks=self._blocks(),
            bars=self.bars(),
            hidden=self._hidden.sentence,
            values=self.values(),
            errors=group_errors({rank: end for rank, end in ends.items() if end.crash is None}),
            crashes=tuple(end.crash for end in ends.values() if end.crash is not None),
            survivors=tuple(sorted(rank for rank, end in ends.items() if end.status != "lost")),
            raised_rank=raised_rank,
            notes=self._final_notes(),
            states=self._states(),
            log_hint=log_hint,
        )

    def bare_picture(self, why: str) -> CellPicture:
        """Show the last lines of each rank as they are, where putting them together has failed."""
        said = {rank: t.last(LIVE_ROWS) for rank, t in self._transcripts.items()}
        blocks = [Block([], 0, [Row((rank,), e) for e in said[rank]]) for rank in sorted(said)]
        return CellPicture(blocks=blocks, notes=(why, *self.notes))

    def header(self) -> str:
        """Return how many ranks run and how the others ended: `▶ 3 running · 1 done`."""
        counts = Counter(
            "done" if result.status == "ok" else result.status.replace("_", " ")
            for result in self.finished.values()
        )
        told = [f"{count} {status}" for status, count in sorted(counts.items())]
        if self.running_count:
            told.insert(0, f"{self.running_count} running")
        return "▶ " + " · ".join(told)

    def bars(self) -> tuple[FoldedBar, ...]:
        """Return the progress bars of all ranks, folded."""
        return self._bars.folded({rank: each.status for rank, each in self.finished.items()})

    def values(self) -> list[ValueGroup]:
        """Return the distinct values of the last expression, in rank order."""
        found = {rank: t.value for rank, t in self._transcripts.items() if t.value is not None}
        prints: dict[int, Hashable] = {rank: v.without_addresses for rank, v in found.items()}
        return [_value_group(ranks, found) for ranks in group_equal(prints)]

    def _final_notes(self) -> tuple[str, ...]:
        if self.running_count:
            return tuple(self.notes)
        if all(each.status == "ok" for each in self.finished.values()):
            return tuple(note for note in self.notes if not isinstance(note, Passing))
        return tuple(_OF_THE_MOMENT.sub("", note) for note in self.notes)

    def _is_shown(self, rank: int) -> bool:
        return self._shown is None or rank in self._shown

    def _speakers(self) -> dict[int, RankTranscript]:
        return {rank: t for rank, t in sorted(self._transcripts.items()) if not t.is_empty}

    def _groups(self) -> list[tuple[int, ...]]:
        speakers = self._speakers()
        return outliers_first(group_equal({rank: t.fingerprint for rank, t in speakers.items()}))

    def _blocks(self) -> list[Block]:
        speakers = self._speakers()
        if self._merges_lines:
            return [merged_block(speakers)] if speakers else []
        blocks = []
        for ranks in self._groups():
            kept = speakers[ranks[0]].excerpt()
            before = [Row(ranks, entry) for entry in kept.before]
            after = [Row(ranks, entry) for entry in kept.after]
            blocks.append(Block(before, kept.left_out, after))
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


def _value_group(ranks: tuple[int, ...], found: Mapping[int, RichOutput]) -> ValueGroup:
    first = found[ranks[0]]
    if any(found[rank].fingerprint != first.fingerprint for rank in ranks):
        # Objects that differ in nothing but where they are in memory.
        text = first.without_addresses
        first = msgspec.structs.replace(first, payload=text, plain=text)
    return ValueGroup(ranks, first)


def end_of(result: RankResult) -> RankFinished:
    """Return how the cell ended on a rank, as the rank itself has told it."""
    return RankFinished(
        result.rank,
        result.status,
        result.duration_s,
        result.value_repr,
        result.error,
        result.crash,
    )
