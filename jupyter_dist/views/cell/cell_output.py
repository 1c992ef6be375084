"""What a person sees of an SPMD cell while it runs and afterwards."""

import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spmd import CellWatcher
from jupyter_dist.model.hosts.axes import NO_AXES, Axes
from jupyter_dist.model.hosts.rank import naming_along
from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import WIDGET_VIEW, Output, RankFinished
from jupyter_dist.views.cell.cell_picture import CellPicture, CellRecord, end_of
from jupyter_dist.views.cell.display_place import Display, Place, can_replace
from jupyter_dist.views.cell.output_html import live_bundle, saved_bundle
from jupyter_dist.views.cell.shown_once import (
    ShownOnce,
    is_capturing,
    once_captured,
    once_in_notebook,
    once_on_terminal,
)
from jupyter_dist.views.cell.terminal import Terminal, TerminalScreen, write_text
from jupyter_dist.views.cell.undrawn import drawn_or_told, explain_undrawn, undrawn_bundle
from jupyter_dist.views.outputs.grouping import Entry

REDRAW_INTERVAL_S = 0.22
"""Shortest time between two redraws of a running cell."""
Drawn = TypeVar("Drawn")
_BYTES_PER_S = 2_000_000
"""Bound on what redraws send, so that images in a running cell slow them down."""
_BUSY_SHARE = 0.1
"""Bound on the share of time that redraws may cost the notebook's thread."""


ShowWidget = Callable[[int, Output], bool]
"""Shows what a rank has displayed, if it is a widget that can be reached; tells whether it did."""


class CellView(CellWatcher, Protocol):
    """Shows a cell, and how it has ended."""

    def finish(self, result: SpmdResult | None, raised_rank: int | None = None, /) -> object:
        """Take in what came of it; None: that is not known. It is called once."""


class CellOutputView:
    """Watch a cell (a `CellWatcher`) and show it; `finish` leaves the final state.

    `world_size` is the number of ranks that run the cell. `display` is IPython's in a notebook,
    a Terminal (None: one on `sys.stdout`), or a ShownOnce.
    `shown` are the ranks whose outputs are shown at all (None: all); what others say is counted,
    and their errors are shown. `style` says how. `log_hint` is the place of the full log.
    """

    def __init__(
        self,
        *,
        world_size: int,
        display: Display | Terminal | ShownOnce | None = None,
        shown: Collection[int] | None = None,
        style: OutputStyle | None = None,
        log_hint: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.show_widget: ShowWidget | None = None
        """Shows widgets of ranks live; None: they are named as they were displayed."""
        self.order_widgets: Callable[[], None] | None = None
        """Has them stand by rank, if there are any."""
        self._has_live_widgets = False
        self._with_live_value: set[int] = set()
        """Ranks whose value is a widget that is shown, and need not be named as well."""
        whose = None if shown is None else frozenset(shown)
        self._record = CellRecord(world_size, whose, style)
        self._quiet = style is not None and style.quiet
        self._log_hint = log_hint
        self._clock = clock
        self._is_finished = False
        self.axes = NO_AXES
        """Sentences name coordinates along them."""
        self._final: CellPicture | None = None
        self._has_failed = False
        """Something could not be shown, and that was told."""
        self._screen: TerminalScreen | NotebookScreen | ShownOnce
        if isinstance(display, ShownOnce):
            self._screen = display
        elif display is None or isinstance(display, Terminal):
            self._screen = TerminalScreen(display or Terminal(), self._record)
        else:
            self._screen = NotebookScreen(display, self._record)

    @property
    def shows_widgets(self) -> bool:
        """Ranks that run the cell shall send what their widgets say."""
        return self.show_widget is not None

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Take in what each of these ranks said, in its own order."""
        if self.show_widget is not None:
            outputs = [each for each in outputs if not self._is_shown_live(ranks, each)]
        for same, new in self._record.take_output(ranks, outputs):
            self._show(partial(self._show_new, same, new))

    def _is_shown_live(self, ranks: Sequence[int], output: Output) -> bool:
        """Show a widget of one rank; return whether that is what this output is."""
        if WIDGET_VIEW not in output.data or self.show_widget is None or len(ranks) > 1:
            return False
        if not self._record.is_shown(ranks[0]):
            return False
        try:
            is_live = self.show_widget(ranks[0], output)
        except Exception:  # noqa: BLE001  (it is named in the cell's own output then)
            return False
        self._has_live_widgets |= is_live
        if is_live and output.kind == "value":
            self._with_live_value.add(ranks[0])
        return is_live

    def on_finished(self, result: RankFinished) -> None:
        """Take in how the cell ended on a rank."""
        if result.rank in self._with_live_value:
            result = msgspec.structs.replace(result, value_repr=None)
        new = self._record.take_finished(result)
        self._show(lambda: self._show_new([result.rank], new))

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person."""
        is_new = self._record.take_note(text)
        if not self._quiet:
            self._show(lambda: self._screen.note(text, is_new=is_new))

    def on_tick(self) -> None:
        """Redraw if due."""
        if not self._quiet and not self._is_finished:
            self._show(lambda: self._screen.tick(self._clock()))

    def on_question(self) -> bool:
        """Show everything; return whether it may be drawn while a person types: in a notebook."""
        self._show(lambda: self._screen.show_all(self._clock()))
        return isinstance(self._screen, NotebookScreen)

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
        picture = self._draw_along(
            lambda: drawn_or_told(
                lambda: self._record.final_picture(
                    raised_rank, self._log_hint, with_lines=self._screen.shows_lines_at_end
                ),
                lambda problem: self._record.bare_picture(explain_undrawn("this cell", problem)),
            )
        )
        if self._quiet:
            picture = picture.only_what_went_wrong()
        self._final = picture
        self._show(lambda: self._screen.finish(picture, self._clock()))
        if self._has_live_widgets and self.order_widgets is not None:
            self._show(self.order_widgets)

    def show_again(self) -> None:
        """Put the final state in its place once more: nbclient hears only the cell that runs."""
        if self._final is not None and isinstance(self._screen, NotebookScreen):
            final, screen = self._final, self._screen
            self._show(lambda: screen.finish(final, self._clock()))

    def _show(self, show: Callable[[], None]) -> None:
        """Show something; where that fails, say so once, and go on: the cell has not failed."""
        try:
            self._draw_along(show)
        except Exception as problem:  # noqa: BLE001  (a closed pipe, a front end that refuses)
            if not self._has_failed:
                self._has_failed = True
                told = explain_undrawn("what this cell shows", problem)
                with suppress(Exception):  # stderr may be closed, too
                    write_text(sys.stderr, f"{told} Its result is kept.\n")

    def _draw_along(self, draw: Callable[[], Drawn]) -> Drawn:
        if not self.axes:
            return draw()
        with naming_along(self.axes):
            return draw()

    def _show_new(self, ranks: Sequence[int], entries: Sequence[Entry]) -> None:
        if not self._quiet:
            self._screen.take(ranks, entries, self._clock())


class NotebookScreen:
    """Show a cell in a notebook through one display that is updated; none for an empty cell."""

    shows_lines_at_end = True

    def __init__(self, display: Display, record: CellRecord) -> None:
        self._place = Place(display)
        self._record = record
        self._is_changed = False
        self._next_redraw_s = float("-inf")

    def take(self, ranks: Sequence[int], entries: Sequence[Entry], now_s: float) -> None:  # noqa: ARG002
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

    def show_all(self, now_s: float) -> None:
        """Redraw what has changed."""
        self._next_redraw_s = now_s
        self.tick(now_s)

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
    shown: Collection[int] | None = None,
    style: OutputStyle | None = None,
    log_hint: str = "",
    axes: Axes = NO_AXES,
) -> CellOutputView:
    """Make the view that suits who reads this IPython shell: notebook, terminal, `%%capture`."""
    is_final = style is not None and style.is_final
    display: Display | Terminal | ShownOnce = Terminal()
    if can_replace(shell):
        from IPython.display import display as ipython_display

        display = ipython_display
        if is_capturing(shell):
            display = once_captured(ipython_display)
        elif is_final:
            display = once_in_notebook(ipython_display)
    elif is_final:
        display = once_on_terminal(Terminal())
    view = CellOutputView(
        world_size=world_size, display=display, shown=shown, style=style, log_hint=log_hint
    )
    view.axes = axes
    return view
