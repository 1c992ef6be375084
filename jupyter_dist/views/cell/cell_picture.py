"""What is to be seen of a cell: blocks of rows, values, errors and notes, ready to be rendered."""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, count
from typing import Any, assert_never

import msgspec

from jupyter_dist.cluster.result import RankResult
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.options.output_options import Figures, OutputStyle
from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.text.lists import Momentary, Passing
from jupyter_dist.text.sizes import without_measures
from jupyter_dist.views.outputs.blocks import (
    LIVE_ROWS,
    Block,
    blocks_by_rank,
    collated_block,
    live_blocks,
    live_merged_block,
    merged_block,
    one_block,
)
from jupyter_dist.views.outputs.grouping import (
    Entry,
    ErrorGroup,
    Row,
    group_by,
    group_equal,
    group_errors,
    outliers_first,
)
from jupyter_dist.views.outputs.hidden_outputs import HiddenOutputs
from jupyter_dist.views.outputs.rich_outputs import RichOutput, read_bundle
from jupyter_dist.views.outputs.shared_states import Ranks, SharedStates
from jupyter_dist.views.outputs.transcript import Transcript
from jupyter_dist.views.progress.folded_bars import BarTable, FoldedBar

MERGED_UP_TO = 8
"""Ranks up to which lines are merged one by one; above, ranks with identical output are grouped."""
STRIP_ABOVE = 64
"""Ranks above which a strip shows the state of each."""
_NOTES_CAP = 20
_SINCE = re.compile(r" for \d[\d.]* s\b")
_OTHERS_RUN = re.compile(r"; ranks? [\d,-]+ still runs? this cell \(■ stops that\)$")
"""Ends a note of the ranks that had failed by then."""
_OF_BUTTON = re.compile(r"; ■ (?:releases them|ends that|may not reach .*)$", re.MULTILINE)
"""What a note says of ■: of no use once all ranks have ended."""


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
    figures: Figures = "column"
    """How figures stand that follow each other."""
    has_times: bool = True
    """Bars tell how long they took."""

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
    Final pictures of cells in which ranks said the same, each in its own order, are the same.
    """

    def __init__(
        self,
        world_size: int,
        shown: frozenset[int] | None = None,
        style: OutputStyle | None = None,
    ) -> None:
        self.world_size = world_size
        self._style = style or OutputStyle()
        self.finished: dict[int, RankFinished] = {}
        self.notes: list[str] = []
        self._shown = shown
        self._hidden = HiddenOutputs()
        shown_count = world_size if shown is None else min(world_size, len(shown))
        self._bars = BarTable(shown_count)
        self._merges_lines = shown_count <= MERGED_UP_TO
        """So few ranks are shown that their lines stand side by side in order of arrival."""
        orders = count()
        self._transcripts = SharedStates(lambda: Transcript(orders), Transcript.copy)
        self._values: dict[int, RichOutput] = {}

    @property
    def running_count(self) -> int:
        """Number of ranks that have not finished."""
        return max(0, self.world_size - len(self.finished))

    def take_output(
        self, ranks: Sequence[int], outputs: Sequence[Output]
    ) -> list[tuple[Ranks, list[Entry]]]:
        """Take in what each of these ranks said; return what is new and whole among it."""
        shown = [rank for rank in ranks if self.is_shown(rank)]
        if len(shown) < len(ranks):
            self._hidden.take(set(ranks).difference(shown), outputs)
        for output in outputs:
            if output.kind in ("progress", "clear_output", "value"):
                self._take_beside_lines(shown, output)
        return [(same, lines.take(outputs)) for same, lines in self._transcripts.take(shown)]

    def _take_beside_lines(self, ranks: Sequence[int], output: Output) -> None:
        """Take in what has a place of its own in the picture."""
        if output.kind == "value":
            value = read_bundle(output.data, output.metadata)
            self._values |= dict.fromkeys(ranks, value) if value is not None else {}
        for rank in ranks:
            if output.kind == "progress":
                self._take_bar(rank, output.data)
            elif output.kind == "clear_output":
                self._bars.clear(rank)

    def _take_bar(self, rank: int, state: Mapping[str, Any]) -> None:
        try:
            self._bars.take(rank, state)
        except ValueError as problem:
            self._add_note(f"a progress bar of rank {rank} cannot be drawn: {problem}")

    def take_finished(self, result: RankFinished) -> list[Entry]:
        """Take in how a rank ended; return the lines that this ends."""
        self.finished[result.rank] = result
        if not self.is_shown(result.rank):
            return []
        if result.rank not in self._values and result.value_repr is not None:
            plain = {"text/plain": result.value_repr}
            self._take_beside_lines([result.rank], Output("value", data=plain))
        transcript = self._transcripts.find(result.rank)
        if transcript is None or not transcript.has_partial_lines:
            return []
        ((_, own),) = self._transcripts.take([result.rank])
        return own.end_lines()

    @property
    def has_something(self) -> bool:
        """There is a line, a rich output or a note to show."""
        said = any(not transcript.is_empty for _, transcript in self._transcripts)
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
        more_groups = 0
        if self._merges_lines:
            speakers = self._speakers()
            blocks = [live_merged_block(speakers)] if speakers else []
        else:
            blocks, more_groups = live_blocks(self._groups())
        more = f" · the output of {more_groups} more groups of ranks" if more_groups else ""
        return CellPicture(
            blocks=blocks,
            bars=self.bars(),
            notes=tuple(self.notes[-1:]),
            states=self._states(),
            header=self.header() + more,
            figures=self._style.figures,
        )

    def final_picture(
        self, raised_rank: int | None = None, log_hint: str = "", *, with_lines: bool = True
    ) -> CellPicture:
        """Show everything that is kept; `with_lines=False`: but for what the ranks have printed."""
        ends = self.finished
        return CellPicture(
            blocks=self._blocks() if with_lines else [],
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
            figures=self._style.figures,
            has_times=self._style.times,
        )

    def bare_picture(self, why: str) -> CellPicture:
        """Show the last lines of each rank as they are, where putting them together has failed."""
        said = [(ranks, t.last(LIVE_ROWS)) for ranks, t in self._transcripts]
        blocks = [Block([], 0, [Row(ranks, entry) for entry in last]) for ranks, last in said]
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
        found = self._values
        if self._style.group_outputs == "rank":
            return [ValueGroup((rank,), found[rank]) for rank in sorted(found)]
        prints: dict[int, Hashable] = {rank: v.without_addresses for rank, v in found.items()}
        return [_value_group(ranks, found) for ranks in group_equal(prints)]

    def _final_notes(self) -> tuple[str, ...]:
        if self.running_count:
            return tuple(self.notes)
        if all(each.status == "ok" for each in self.finished.values()):
            return tuple(note for note in self.notes if not isinstance(note, Passing))
        # What ranks end with is shown: a note of the same, which comes only after some time and
        # may name a few of many, adds nothing, and would make two runs differ.
        ends = [str(each.error) for each in self.finished.values() if each.error is not None]
        kept = (
            note
            for note in self.notes
            if not isinstance(note, Momentary)
            and not _OTHERS_RUN.search(note)
            and not (isinstance(note, Passing) and any(end.endswith(note) for end in ends))
        )
        said = (_OF_BUTTON.sub("", note) for note in kept)
        return tuple(said) if self._style.times else tuple(_SINCE.sub("", note) for note in said)

    def is_shown(self, rank: int) -> bool:
        """Return whether outputs of this rank are shown at all."""
        return self._shown is None or rank in self._shown

    def _speakers(self) -> dict[Ranks, Transcript]:
        return {ranks: t for ranks, t in self._transcripts if not t.is_empty}

    def _groups(self) -> list[tuple[Ranks, Transcript]]:
        """Return who said the same, with what they said; the smallest groups first."""
        speakers = self._speakers()
        alike = group_by(speakers, lambda ranks: speakers[ranks].fingerprint).values()
        groups = {tuple(sorted(chain.from_iterable(same))): speakers[same[0]] for same in alike}
        return [(ranks, groups[ranks]) for ranks in outliers_first([*groups])]

    def _blocks(self) -> list[Block]:
        speakers = self._speakers()
        if not speakers:
            return []
        match self._style.group_outputs:
            case "rank":
                return blocks_by_rank(speakers)
            case "order":
                return [collated_block(speakers)]
            case "same" if self._merges_lines:
                return [merged_block(speakers)]
            case "same":
                return [one_block(ranks, said.excerpt()) for ranks, said in self._groups()]
            case other:
                assert_never(other)

    def _states(self) -> dict[str, tuple[int, ...]]:
        if self.world_size <= STRIP_ABOVE:
            return {}
        known = {rank for ranks, _ in self._transcripts for rank in ranks} | self.finished.keys()
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
