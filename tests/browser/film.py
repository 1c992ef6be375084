"""What a page shows as a moving picture: frames as the browser has drawn them, with their times."""

import base64
import io
from itertools import pairwise
from pathlib import Path
from typing import Any

FEWEST_MS = 80
"""Frames that follow each other faster are one."""
LAST_MS = 2500
"""So long the end stands before it begins again."""
_CAPTION = """([words, part]) => {
  const { left, width } = document.querySelector(part).getBoundingClientRect();
  const bar = document.getElementById('film-caption') ?? document.createElement('div');
  bar.id = 'film-caption';
  bar.textContent = words;
  bar.style.cssText = `position: fixed; bottom: 0; left: ${left}px; width: ${width}px; z-index: 9999;
    box-sizing: border-box; padding: 9px 16px; font: 600 16px/1.4 system-ui, sans-serif; background: #1c2733; color: #fff`;
  document.body.append(bar);
}"""


def _read(png: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("RGB")


class Film:
    """Frames of a page from now on; the browser sends one when something has changed.

    They are as wide as a part of it (a selector), and reach from its top to the caption.
    """

    def __init__(self, page: Any, part: str) -> None:
        self._page = page
        self._part = part
        self._frames: list[tuple[float, bytes]] = []
        self._session = page.context.new_cdp_session(page)
        self._session.on("Page.screencastFrame", self._take)
        self._session.send("Page.startScreencast", {"format": "png"})

    def caption(self, words: str) -> None:
        """Say below the page what happens."""
        self._page.evaluate(_CAPTION, [words, self._part])

    def save(self, path: Path) -> float:
        """End, and write an animated WebP; returns its seconds."""
        self._session.send("Page.stopScreencast")
        shown = self._thinned()
        box = self._page.locator(self._part).first.bounding_box()
        left, right = round(box["x"]), round(box["x"] + box["width"])
        part = (left, round(box["y"]), right, self._page.viewport_size["height"])
        begins_s = [at_s for at_s, _ in shown]
        lasting = [round(1000 * (b - a)) for a, b in pairwise(begins_s)]
        lasting.append(LAST_MS)
        first, *others = [_read(png).crop(part) for _, png in shown]
        first.save(
            path, save_all=True, append_images=others, duration=lasting, loop=0,
            lossless=True, quality=75, method=4,
        )  # fmt: skip
        return sum(lasting) / 1000

    def _take(self, frame: dict[str, Any]) -> None:
        self._frames.append((frame["metadata"]["timestamp"], base64.b64decode(frame["data"])))
        self._session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def _thinned(self) -> list[tuple[float, bytes]]:
        """Of frames that follow each other too fast the last."""
        kept: list[tuple[float, bytes]] = []
        for at_s, png in self._frames:
            if kept and 1000 * (at_s - kept[-1][0]) < FEWEST_MS:
                kept[-1] = (kept[-1][0], png)
            else:
                kept.append((at_s, png))
        return kept
