"""Stages of something that ranks are waited for in, each with its time."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic

from jupyter_dist.views.cell.display_place import Display, Place
from jupyter_dist.views.cell.terminal import Terminal


class StageView(AbstractContextManager["StageView"]):
    """Show what is waited for, and in the end how long each stage took; pass its `on_stage`.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`). Without a
    TTY each stage is a line. What is left has no seconds unless it `keeps_times`. To be used in
    `with`.
    """

    def __init__(
        self,
        *,
        display: Display | Terminal | None = None,
        clock: Callable[[], float] = monotonic,
        keeps_times: bool = True,
    ) -> None:
        self._place = Place(display)
        self._clock = clock
        self._keeps_times = keeps_times
        self._stages: list[tuple[str, float]] = []
        """What was said, and when it began."""

    def on_stage(self, text: str) -> None:
        """Show that this is waited for now."""
        self._stages.append((text, self._clock()))
        if self._place.is_log:
            self._place.leave(text)
        else:
            self._place.show_now(f"{self._past()} …")

    def finish(self) -> None:
        """Leave one line: every stage, with its time where that is kept."""
        if self._stages and not self._place.is_log:
            names = " · ".join(text for text, _ in self._stages)
            self._place.leave(self._past(self._clock()) if self._keeps_times else names)

    def __exit__(self, *_: object) -> None:
        self.finish()

    def _past(self, end_s: float | None = None) -> str:
        """Write all stages; the last one has no time while it is under way."""
        begins = [began_s for _, began_s in self._stages]
        ends = [*begins[1:], end_s]
        return " · ".join(
            text if end_s is None else f"{text} ({end_s - began_s:.1f} s)"
            for (text, began_s), end_s in zip(self._stages, ends, strict=True)
        )
