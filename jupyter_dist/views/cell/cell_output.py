"""What a person sees of an SPMD cell while it runs and afterwards."""

import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.views.cell.cell_picture import CellPicture, CellRecord, end_of
from jupyter_dist.views.cell.display_place import Display, Place, can_replace
from jupyter_dist.views.cell.output_html import live_bundle, saved_bundle
from jupyter_dist.views.cell.terminal import Terminal, TerminalScreen, write_text
from jupyter_dist.views.cell.undrawn import drawn_or_told, explain_undrawn, undrawn_bundle
from jupyter_dist.views.outputs.grouping import Entry

REDRAW_INTERVAL_S = 0.22
"""Shortest time between two redraws of a running cell."""
_BYTES_PER_S = 2_000_000
"""Bound on what redraws send, so that images in a running cell slow them down."""
_BUSY_SHARE = 0.1
"""Bound on the share of time that redraws may cost the notebook's thread."""


class CellOutputView:
    """Watch a cell (a `CellWatcher`) and show it; `finish` leaves the final state.

    `world_size` is the number of ranks that run the cell. `display` is IPython's in a notebook,
    or a Terminal (None: one on `sys.stdout`). `quiet` shows nothing but what went wrong.
    `shown` are the ranks whose outputs are shown at all (None: all); what others say is counted,
    and their errors are shown. `log_hint` is the place of the full log.
    """

    def __init__(
        self,
        *,
        world_size: int,
        display: Display | Terminal | None = None,
        quiet: bool = False,
        shown: Collection[int] | None = None,
        log_hint: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._record = CellRecord(world_size, None if shown is None else frozenset(shown))
        self._quiet = quiet
        self._log_hint = log_hint
        self._clock = clock
        self._is_finished = False
        self._has_failed = False
        """Something could not be shown, and that was told."""
        self._screen: TerminalScreen | NotebookScreen
        if display is None or isinstance(display, Terminal):
            self._screen = TerminalScreen(display or Terminal(), self._record)
        else:
            self._screen = NotebookScreen(display, self._record)

    def on_output(self, rank: int, outputs: Sequence[Output]) -> None:
        """Take in what a rank said, in its own order."""
        new = self._record.take_output(rank, outputs)
        self._show(lambda: self._show_new(rank, new))

    def on_finished(self, result: RankFinished) -> None:
        """Take in how the cell ended on a rank."""
        new = self._record.take_finished(result)
        self._show(lambda: self._show_new(result.rank, new))

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person."""
        is_new = self._record.take_note(text)
        if not self._quiet:
            self._show(lambda: self._screen.note(text, is_new=is_new))

    def on_tick(self) -> None:
        """Redraw if due."""
        if not self._quiet and not self._is_finished:
            self._show(lambda: self._screen.tick(self._clock()))

    def finish(self, result: SpmdResult | None, raised_rank: int | None = None) -> None:
        """Show the final state; a second call does nothing.

        The traceback of `raised_rank` is left out: whoever raises it shows it. `result` None
        means that the cell was given up before all ranks had finished.
        """
        if self._is_finished:
            return
        self._is_finished = True
        for each in result or ():
            if each.rank not in self._record.finished:
                self.on_finished(end_of(each))
        picture = drawn_or_told(
            lambda: self._record.final_picture(raised_rank, self._log_hint),
            lambda problem: self._record.bare_picture(explain_undrawn("this cell", problem)),
        )
        if self._quiet:
            picture = picture.only_what_went_wrong()
        self._show(lambda: self._screen.finish(picture, self._clock()))

    def _show(self, show: Callable[[], None]) -> None:
        """Show something; where that fails, say so once, and go on: the cell has not failed."""
        try:
            show()
        except Exception as problem:  # noqa: BLE001  (a closed pipe, a front end that refuses)
            if not self._has_failed:
                self._has_failed = True
                told = explain_undrawn("what this cell shows", problem)
                with suppress(Exception):  # stderr may be closed, too
                    write_text(sys.stderr, f"{told} Its result is kept.\n")

    def _show_new(self, rank: int, entries: Sequence[Entry]) -> None:
        if not self._quiet:
            self._screen.take(rank, entries, self._clock())


class NotebookScreen:
    """Show a cell in a notebook through one display that is updated; none for an empty cell."""

    def __init__(self, display: Display, record: CellRecord) -> None:
        self._place = Place(display)
        self._record = record
        self._is_changed = False
        self._next_redraw_s = float("-inf")

    def take(self, rank: int, entries: Sequence[Entry], now_s: float) -> None:  # noqa: ARG002
        """Remember that there is something new; the record has it."""
        self._is_changed = True

    def note(self, text: str, *, is_new: bool) -> None:  # noqa: ARG002
        """Remember that there is something new; the record has it."""
        self._is_changed = True

    def tick(self, now_s: float) -> None:
        """Redraw when something has changed and the last redraw is long enough ago."""
        if not self._is_changed or now_s < self._next_redraw_s:
            return
        self._is_changed = False
        if not self._place.is_taken and not self._record.has_something:
            return
        started = time.perf_counter()
        bundle = live_bundle(self._record.live_picture())
        self._place.show(bundle)
        cost_s = (time.perf_counter() - started) / _BUSY_SHARE
        transfer_s = len(bundle["text/html"]) / _BYTES_PER_S
        self._next_redraw_s = now_s + max(REDRAW_INTERVAL_S, cost_s, transfer_s)

    def finish(self, picture: CellPicture, now_s: float) -> None:  # noqa: ARG002
        """Replace the running cell by static HTML and plain text."""
        if not self._place.is_taken and picture.is_empty:
            return
        try:
            self._place.show(saved_bundle(picture))
        except Exception as problem:  # noqa: BLE001  (a front end may refuse what it is given)
            self._place.show(undrawn_bundle(picture, problem))


def choose_view(
    shell: object,
    *,
    world_size: int,
    quiet: bool = False,
    shown: Collection[int] | None = None,
    log_hint: str = "",
) -> CellOutputView:
    """Make the view that suits who reads this IPython shell: a notebook, or a terminal."""
    display: Display | None = None
    if can_replace(shell):
        from IPython.display import display as ipython_display

        display = ipython_display
    return CellOutputView(
        world_size=world_size, display=display, quiet=quiet, shown=shown, log_hint=log_hint
    )
