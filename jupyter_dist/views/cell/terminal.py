"""A cell in a terminal or a plain script: lines as they are decided, groups at the end."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from jupyter_dist.model.hosts.rank import format_ranks
from jupyter_dist.text.lists import name_interrupt
from jupyter_dist.views.cell.cell_picture import CellPicture, CellRecord
from jupyter_dist.views.cell.output_text import (
    error_lines,
    hidden_lines,
    notes_lines,
    row_texts,
    value_lines,
)
from jupyter_dist.views.outputs.ansi import keep_colours, strip_ansi
from jupyter_dist.views.outputs.grouping import Entry, LineMerger, Row, label_ranks
from jupyter_dist.views.outputs.shared_states import Ranks
from jupyter_dist.views.progress.bar_text import bar_line
from jupyter_dist.views.progress.folded_bars import FoldedBar

SETTLE_INTERVAL_S = 0.1
"""Shortest time between two looks at which lines are decided."""
_ERASE = "\r\x1b[K"


class Terminal:
    """Where text goes: whole lines, and on a TTY one status line below them."""

    def __init__(
        self, write: Callable[[str], object] | None = None, *, is_tty: bool | None = None
    ) -> None:
        self._write_to = write
        self.is_tty = sys.stdout.isatty() if is_tty is None else is_tty
        self.has_colours = self.is_tty and not _are_colours_refused()
        self._status = ""

    def write_lines(self, lines: Sequence[str]) -> None:
        """Write lines above the status line."""
        if lines:
            body = "\n".join(lines)
            self._write(f"{_ERASE if self._status else ''}{body}\n{self._status}")

    def show_status(self, text: str) -> None:
        """Replace the status line; an empty text removes it. Does nothing without a TTY."""
        if not self.is_tty:
            return
        text = text[: max(20, shutil.get_terminal_size().columns - 1)]
        if text != self._status:
            self._write((_ERASE if self._status else "") + text)
            self._status = text

    def _write(self, text: str) -> None:
        if self._write_to is not None:
            self._write_to(text)
        else:
            write_text(sys.stdout, text)


def has_colours(stream: TextIO) -> bool:
    """Return whether colours reach a person there, and are wanted (https://no-color.org)."""
    return stream.isatty() and not _are_colours_refused()


def _are_colours_refused() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def write_text(stream: TextIO, text: str) -> None:
    """Write, with question marks for what the stream's encoding does not have."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


class TerminalScreen:
    """Show a cell on a terminal."""

    shows_lines_at_end = False
    """They have been written by then."""

    def __init__(self, terminal: Terminal, record: CellRecord) -> None:
        self._terminal = terminal
        self._record = record
        self._merger = LineMerger()
        self._next_settle_s = float("-inf")
        self._told_bars: set[tuple[int, int]] = set()
        self._width = len(format_ranks(range(min(record.world_size, 8)))) + 2
        self._clean = keep_colours if terminal.has_colours else strip_ansi

    def take(self, ranks: Sequence[int], entries: Sequence[Entry], now_s: float) -> None:
        """Take in what is new from these ranks."""
        self._merger.offer(ranks, entries, now_s)

    def note(self, text: str, *, is_new: bool) -> None:
        """Write a new note above the status line for good, so that a log keeps it."""
        if is_new:
            self._terminal.write_lines(notes_lines([name_interrupt(strip_ansi(text))]))

    def tick(self, now_s: float) -> None:
        """Write the lines that are decided."""
        if now_s < self._next_settle_s:
            return
        self._next_settle_s = now_s + SETTLE_INTERVAL_S
        self._write_settled(now_s)
        bars = self._record.bars()
        everyone = self._record.world_size
        self._write_bars([bar for bar in bars if bar.is_over and len(bar.ranks) == everyone])
        self._terminal.show_status(self._status(bars) if self._record.running_count else "")

    def show_all(self, now_s: float) -> None:
        """Write the lines that have come, decided or not, and leave the last line free."""
        self._write_rows(self._merger.settle(now_s, 0, frozenset(self._record.finished)))
        self._terminal.show_status("")

    def finish(self, picture: CellPicture, now_s: float) -> None:
        """Write what is left, the values and what went wrong."""
        self._write_settled(now_s)
        self._terminal.show_status("")
        self._write_bars(picture.bars)
        lines = [*value_lines(picture.values), *error_lines(picture), *hidden_lines(picture)]
        self._write_clean(lines)

    def _write_settled(self, now_s: float) -> None:
        record = self._record
        self._write_rows(
            self._merger.settle(now_s, record.running_count, frozenset(record.finished))
        )

    def _write_rows(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        prefixes = {ranks: self._prefix(ranks) for ranks in {row.ranks for row in rows}}
        self._write_clean(row_texts(rows, prefixes))

    def _write_clean(self, lines: Sequence[str]) -> None:
        """Write lines without what would move the cursor."""
        if not "".join(lines).isprintable():
            lines = [self._clean(line) for line in lines]
        self._terminal.write_lines(lines)

    def _write_bars(self, bars: Sequence[FoldedBar]) -> None:
        """Write the last state of bars, each once."""
        for bar in bars:
            key = bar.ranks[0], bar.first.bar
            if key not in self._told_bars:
                self._told_bars.add(key)
                self._terminal.write_lines([bar_line(bar)])

    def _status(self, bars: Sequence[FoldedBar]) -> str:
        """Return who runs, and how far the newest bar is that moves."""
        moving = [bar_line(bar) for bar in bars if not bar.is_over]
        return " · ".join([self._record.header(), *moving[-1:]])

    def _prefix(self, ranks: Ranks) -> str:
        return f"{label_ranks(ranks):<{self._width}} "
