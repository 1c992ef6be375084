"""Rich outputs of one cell as HTML: within bounds, below each other or side by side."""

import hashlib
import html
import re

from jupyter_dist.options.output_options import Figures
from jupyter_dist.text.sizes import KIB, tell_size
from jupyter_dist.views.cell.output_text import cap_text
from jupyter_dist.views.outputs.ansi import ansi_to_html
from jupyter_dist.views.outputs.rich_outputs import RichOutput

RICH_CAP = 8 * 1024 * 1024
"""Characters that the rich outputs of a saved cell may take."""
# The size and the edge of what a notebook prints itself.
PRE = '<pre style="margin:0;padding:0;white-space:pre-wrap;font-family:monospace;font-size:93%">'
SMALL = '<div style="opacity:0.7;font-size:90%">'
_LIBRARY_FROM = 32 * KIB
"""Characters of a script that is a library, as plotly.js, and no figure's own."""
_SCRIPT = re.compile(r"<script\b[^>]*>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
_BESIDE = "display:inline-block;vertical-align:top;margin-right:12px"


class RichHtml:
    """Writes the rich outputs of one cell; a library of scripts that many bring is written once."""

    def __init__(self, figures: Figures = "column", room: int = RICH_CAP) -> None:
        self._figures = figures
        self._room = room
        self._libraries: set[bytes] = set()

    def write(self, head: str, rich: RichOutput) -> str:
        """Return an output below its head."""
        return self.place(head + self._draw(rich))

    def place(self, markup: str) -> str:
        """Return markup that stands beside what follows, where figures do."""
        return f'<div style="{_BESIDE}">{markup}</div>' if self._figures == "row" else markup

    def _draw(self, rich: RichOutput) -> str:
        payload = self._without_known_libraries(rich) if rich.mime == "text/html" else rich.payload
        if len(payload) > self._room:
            size = tell_size(len(payload))
            return f"<div><i>{rich.mime} of {size} left out of the saved output</i></div>"
        self._room -= len(payload)
        if rich.mime.startswith("image/"):
            width, height = rich.size or (0, 0)
            size = f' width="{width}" height="{height}"' if rich.size else ""
            source = f"data:{rich.mime};base64,{html.escape(payload)}"
            alternative = html.escape(cap_text(rich.plain, 200))
            return f'<div><img src="{source}"{size} alt="{alternative}"></div>'
        if rich.mime == "text/html":
            return f"<div>{payload}</div>"
        if rich.mime == "text/latex":
            return f"<div>{html.escape(payload, quote=False)}</div>"
        return f"{PRE}{ansi_to_html(payload)}</pre>"

    def _without_known_libraries(self, rich: RichOutput) -> str:
        """Leave out libraries that stand in this page already: scripts of a page share them."""
        if len(rich.payload) < _LIBRARY_FROM:
            return rich.payload

        def once(script: re.Match[str]) -> str:
            if len(script[1]) < _LIBRARY_FROM:
                return script[0]
            digest = hashlib.blake2b(script[1].encode("utf-8", "replace")).digest()
            is_known = digest in self._libraries
            self._libraries.add(digest)
            return "" if is_known else script[0]

        return _SCRIPT.sub(once, rich.payload)
