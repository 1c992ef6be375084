"""A push, pull or sync that takes long: a bar that is gone when it is over."""

import html
from collections import deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

from jupyter_dist.protocol.messages import TransferMoved
from jupyter_dist.views.place import Display, Place
from jupyter_dist.views.terminal import Terminal

SPEED_OVER_S = 3.0
"""The speed is that of the last seconds."""
_TEXT_BAR_WIDTH = 20
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


class TransferBar:
    """Show how much has arrived, how fast, and how long it will take; pass its `on_moved`.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`). Without a
    TTY nothing is written. `with` removes the bar, however it ends.
    """

    def __init__(
        self,
        *,
        display: Display | Terminal | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._place = Place(display)
        self._clock = clock
        self._began_s = clock()
        self._seen: deque[tuple[float, int]] = deque()
        """When how many bytes had arrived, over the last seconds."""

    def on_moved(self, moved: TransferMoved) -> None:
        """Show how far it is."""
        now_s = self._clock()
        if self._seen and moved.moved_bytes < self._seen[-1][1]:
            self._seen.clear()  # the next part of the way has begun
        self._seen.append((now_s, moved.moved_bytes))
        while len(self._seen) > 2 and self._seen[0][0] < now_s - SPEED_OVER_S:
            self._seen.popleft()
        words = self._words(moved, now_s)
        if self._place.terminal is not None:
            self._place.terminal.show_status(_text_bar(moved, words))
        else:
            self._show(_html_bar(moved, words), _text_bar(moved, words))

    def close(self) -> None:
        """Remove the bar."""
        if self._place.terminal is not None:
            self._place.terminal.show_status("")
        elif self._place.is_taken:
            self._show("", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _show(self, markup: str, text: str) -> None:
        self._place.show({"text/html": markup, "text/plain": text})

    def _words(self, moved: TransferMoved, now_s: float) -> str:
        """Write what is known; where no total is known, the time that has gone by."""
        parts = [moved.where] if moved.where else []
        if moved.total_bytes:
            parts.append(f"{size_text(moved.moved_bytes)} of {size_text(moved.total_bytes)}")
        elif moved.moved_bytes:
            parts.append(size_text(moved.moved_bytes))
        speed = self._speed()
        if speed:
            parts.append(f"{size_text(speed)}/s")
        if speed and moved.total_bytes:
            parts.append(f"{(moved.total_bytes - moved.moved_bytes) / speed:.0f} s left")
        else:
            parts.append(f"{now_s - self._began_s:.0f} s")
        return " · ".join(parts)

    def _speed(self) -> float:
        """Give bytes per second; 0 while that is not known."""
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


def size_text(size_bytes: float) -> str:
    """Write a size with two digits at least: `8.2 MB`, `310 MB`, `1.1 GB`."""
    for unit, name in _UNITS:
        if size_bytes >= unit * 0.9995:
            number = size_bytes / unit
            return f"{number:.1f} {name}" if number < 9.95 else f"{number:.0f} {name}"
    return f"{size_bytes:.0f} B"


def _text_bar(moved: TransferMoved, words: str) -> str:
    if not moved.total_bytes:
        return words
    done = round(min(1.0, moved.moved_bytes / moved.total_bytes) * _TEXT_BAR_WIDTH)
    return f"{'█' * done}{'░' * (_TEXT_BAR_WIDTH - done)} {words}"


def _html_bar(moved: TransferMoved, words: str) -> str:
    text = html.escape(words, quote=False)
    bar = ""
    if moved.total_bytes:
        percent = round(100 * min(1.0, moved.moved_bytes / moved.total_bytes))
        fill = f"width:{percent}%;height:4px;background-color:rgb(59,130,246)"
        track = "width:200px;height:4px;background-color:rgba(128,128,128,0.25)"
        bar = f'<div style="{track}"><div style="{fill}"></div></div>'
    return f'<div style="margin-left:8px">{text}{bar}</div>'
