"""How a benchmark is shown: what is measured now in one line, then tables and a plot."""

import time
from collections.abc import Callable, Sequence

import msgspec

from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.model.bench.measurements import (
    PROGRESS_MIME,
    BenchProgress,
    BenchReport,
)
from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.views.cell.cell_output import REDRAW_INTERVAL_S, CellOutputView
from jupyter_dist.views.cell.display_place import Display, Place, line_bundle
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.tables.bench_table import bench_html, bench_text


class BenchView:
    """Watch the cell that measures (a `CellWatcher`) and show it.

    What ranks say besides, and how they fail, is shown by `cell` as for any cell. `display` is
    IPython's in a notebook, or the Terminal of `cell` (None: one on `sys.stdout`).
    """

    def __init__(
        self,
        cell: CellOutputView,
        *,
        display: Display | Terminal | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cell = cell
        self._clock = clock
        self._place = Place(display)
        self._text = "measuring …"
        self._shown = ""
        self._has_more = False
        """There is something to be seen of the cell itself."""
        self._next_redraw_s = float("-inf")

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Take in what each of these ranks said: what is measured now, and anything else."""
        others = []
        for output in outputs:
            if PROGRESS_MIME in output.data:
                self._text = str(msgspec.convert(output.data[PROGRESS_MIME], BenchProgress))
            else:
                others.append(output)
        if others:
            self._has_more = True
            self._cell.on_output(ranks, others)

    def on_finished(self, result: RankFinished) -> None:
        """Take in how the cell ended on a rank."""
        self._cell.on_finished(result)

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person."""
        self._has_more = True
        self._cell.on_note(text)

    def on_tick(self) -> None:
        """Show what is measured now, if it is time."""
        now_s = self._clock()
        if self._has_more:
            self._cell.on_tick()
        if self._place.terminal is not None:
            self._place.terminal.show_status(self._text)
        elif self._text != self._shown and now_s >= self._next_redraw_s:
            self._next_redraw_s = now_s + REDRAW_INTERVAL_S
            self._shown = self._text
            self._place.show(line_bundle(self._text))

    def finish(self, result: SpmdResult, report: BenchReport) -> None:
        """Replace the line by what was measured."""
        self._cell.finish(result)
        text = bench_text(report)
        self._place.leave(text, {"text/html": bench_html(report), "text/plain": text})

    def fail(self, result: SpmdResult | None, raised_rank: int | None = None) -> None:
        """Replace the line by how the cell ended; `result` None means that it was given up."""
        if self._place.terminal is not None:
            self._place.terminal.show_status("")
        elif self._place.is_taken:
            self._place.show(line_bundle("not measured"))
        self._cell.finish(result, raised_rank)
