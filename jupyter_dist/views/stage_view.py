"""Stages of something that ranks are waited for in, each with its time."""

import html
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

from jupyter_dist.views.place import Display, Place
from jupyter_dist.views.terminal import Terminal


class StageView:
    """Show what is waited for, and in the end how long each stage took; pass its `on_stage`.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`). Without a
    TTY each stage is a line. To be used in `with`.
    """

    def __init__(
        self,
        *,
        display: Display | Terminal | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._place = Place(display)
        self._clock = clock
        self._stages: list[tuple[str, float]] = []
        """What was said, and when it began."""

    def on_stage(self, text: str) -> None:
        """Show that this is waited for now."""
        self._stages.append((text, self._clock()))
        if self._place.terminal is None:
            self._show(f"{self._past()} …")
        elif self._place.terminal.is_tty:
            self._place.terminal.show_status(f"{self._past()} …")
        else:
            self._place.terminal.write_lines([text])

    def finish(self) -> None:
        """Leave one line: every stage with its time."""
        if not self._stages:
            return
        text = self._past(self._clock())
        if self._place.terminal is None:
            self._show(text)
        elif self._place.terminal.is_tty:
            self._place.terminal.show_status("")
            self._place.terminal.write_lines([text])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish()

    def _past(self, end_s: float | None = None) -> str:
        """Write all stages; the last one has no time while it is under way."""
        begins = [began_s for _, began_s in self._stages]
        ends = [*begins[1:], end_s]
        return " · ".join(
            text if end_s is None else f"{text} ({end_s - began_s:.1f} s)"
            for (text, began_s), end_s in zip(self._stages, ends, strict=True)
        )

    def _show(self, text: str) -> None:
        markup = f'<div style="margin-left:8px">{html.escape(text, quote=False)}</div>'
        self._place.show({"text/html": markup, "text/plain": text})
