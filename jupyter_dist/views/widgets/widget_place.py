"""Where a widget of a rank stands in a notebook: its rank above it, what callbacks say below."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from jupyter_dist.protocol.messages import WIDGET_VIEW, Output
from jupyter_dist.text.plurals import count_of, fit
from jupyter_dist.views.cell.display_place import Display, Place, line_bundle
from jupyter_dist.views.outputs.ansi import ansi_to_html
from jupyter_dist.views.outputs.rich_outputs import read_bundle

_KEPT_LINES = 20
_CAPTION = "opacity:0.75;font-size:90%"


@dataclass(frozen=True)
class _Outputs:
    """Of a cell: three that follow each other."""

    heading: Place
    view: Any
    said: Place


class WidgetPlace:
    """Three outputs of the cell that has displayed it."""

    def __init__(self, display: Display, rank: int, data: Mapping[str, Any]) -> None:
        self.model_id = str(data[WIDGET_VIEW]["model_id"])
        self.rank = rank
        self._still: dict[str, Any] = {"text/plain": str(data.get("text/plain", "a widget"))}
        """What shows it without its library: in a saved notebook, and when it has ended."""
        if isinstance(picture := data.get("image/png"), str):
            self._still["image/png"] = picture
        self._drawn = {WIDGET_VIEW: data[WIDGET_VIEW], **self._still}
        self._lines: list[str] = []
        self._waiting = 0
        self._end = ""
        """Why it is no more; empty: it is live."""
        heading, said = Place(display), Place(display)
        heading.show(self._heading())
        view = display(self._drawn, raw=True, display_id=True)
        said.show(self._said())
        self.outputs = _Outputs(heading, view, said)

    def move_to(self, outputs: _Outputs) -> None:
        """Stand there from now on; a page makes one more view of the same widget."""
        if outputs is not self.outputs:
            self.outputs = outputs
            outputs.heading.show(self._heading())
            outputs.view.update(self._drawn, raw=True)
            outputs.said.show(self._said())

    def say_waiting(self, waiting: int) -> None:
        """Show how many events wait for the rank, which does something else; 0: none."""
        if waiting != self._waiting:
            self._waiting = waiting
            self.outputs.heading.show(self._heading())

    def say(self, outputs: Sequence[Output]) -> None:
        """Show what a callback has said or raised, below the widget."""
        for output in outputs:
            text = output.text
            if output.data and (rich := read_bundle(output.data, output.metadata)) is not None:
                text = rich.stand_in
            self._lines += text.splitlines()
        self._lines = self._lines[-_KEPT_LINES:]
        if self._lines:
            self.outputs.said.show(self._said())

    def end(self, reason: str) -> None:
        """Replace the widget by what it was, and why it is no more."""
        self._end, self._drawn = reason, self._still
        self.outputs.heading.show(self._heading())
        self.outputs.view.update(self._drawn, raw=True)

    def _heading(self) -> dict[str, str]:
        heading = f"rank {self.rank}"
        if self._end:
            heading = f"{self._end}. Its widget, as it was displayed:"
        elif self._waiting:
            verb = fit(range(self._waiting), "waits", "wait")
            heading += f" is busy: {count_of(self._waiting, 'event')} {verb}"
        return line_bundle(heading, style=_CAPTION)

    def _said(self) -> dict[str, str]:
        if not self._lines:
            return {"text/html": "", "text/plain": ""}
        text = "\n".join(self._lines)
        head = f"rank {self.rank}, callbacks: "
        shown = f'<div style="margin-left:8px;{_CAPTION}">{html.escape(head)}</div>'
        shown += f'<pre style="margin:0 0 0 8px">{ansi_to_html(text)}</pre>'
        return {"text/html": shown, "text/plain": f"{head}\n{text}"}


def order_places(places: Sequence[WidgetPlace], *, is_rank_after_rank: bool) -> None:
    """Have the widgets of one cell, given as they came, stand by rank.

    The second ones of all ranks follow the first ones, as other outputs do, unless all of a rank
    are to stand together. Those that stand right already stay untouched.
    """
    counts: Counter[int] = Counter()
    keyed = []
    for place in places:
        step = 0 if is_rank_after_rank else counts[place.rank]
        keyed.append(((step, place.rank), place))
        counts[place.rank] += 1
    free = [place.outputs for place in places]
    for (_, place), outputs in zip(sorted(keyed, key=itemgetter(0)), free, strict=True):
        place.move_to(outputs)
