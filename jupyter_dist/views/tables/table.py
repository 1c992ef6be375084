"""What all tables share: lines of one width, and the look of a table in a notebook."""

import html
import textwrap
from collections.abc import Iterable

from jupyter_dist.views.outputs.ansi import strip_ansi

TEXT_WIDTH = 96
# Mid tones: marks of them are seen on a white and on a black page (3:1); for words see `readable`.
GOOD, WARNING, BAD = "rgb(46,150,68)", "rgb(176,133,0)", "rgb(217,67,59)"
MARKS = {"good": "✓", "warning": "!", "bad": "✗", "unknown": "·"}
COLOURS = {"good": GOOD, "warning": WARNING, "bad": BAD, "unknown": "rgb(135,135,135)"}
"""Of what is judged, by how good it is."""
_CELL = "text-align:left;padding:1px 14px 1px 0;border:none;background:none;white-space:nowrap"
_TABLE = "border-collapse:collapse;border:none;margin:0 0 6px 0;font-size:93%"


def wrap(text: str, indent: str, width: int = TEXT_WIDTH) -> list[str]:
    """Break a text into lines between words; lines after the first one are indented."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def plain(text: str) -> str:
    """Return the markup of text that is nothing but text."""
    return html.escape(strip_ansi(text))


def page_html(pieces: Iterable[str]) -> str:
    """Return one `<div>` around markup."""
    return f'<div style="padding-left:8px">{"".join(pieces)}</div>'


def small_html(text: str) -> str:
    """Return a line of less importance."""
    return f'<div style="opacity:0.7;font-size:90%">{plain(text)}</div>'


def judged_html(level: str, markup: str) -> str:
    """Return a remark at a bar in the colour of its level."""
    return marked_html(MARKS[level], COLOURS[level], markup)


def marked_html(mark: str, colour: str, markup: str) -> str:
    """Return a remark with its mark, at a bar of the same colour."""
    frame = f"margin:0 0 4px 0;padding-left:6px;border-left:3px solid {colour}"
    return f'<div style="{frame}"><b style="color:{colour}">{mark}</b> {markup}</div>'


def table_html(rows: Iterable[str], style: str = "") -> str:
    """Return a table of rows of markup."""
    return f'<table style="{_TABLE};{style}">{"".join(rows)}</table>'


def row_html(cells: Iterable[str], style: str = "") -> str:
    """Return a row of cells of markup."""
    frame = f' style="{style}"' if style else ""
    return f"<tr{frame}>{''.join(cells)}</tr>"


def markable_row_html(cells: Iterable[str], *, is_marked: bool) -> str:
    """Return a row that has a background of its own where it is marked."""
    return row_html(cells, f"background:{'rgba(217,67,59,0.12)' if is_marked else 'none'}")


def head_html(text: str, style: str = "", title: str = "") -> str:
    """Return the cell of a column's or row's name, with what it is in full."""
    hint = f' title="{html.escape(title)}"' if title else ""
    if not text:
        return cell_html("", style)
    look = f"{_CELL};font-weight:normal;opacity:0.7;{style}"
    return f'<th style="{look}"{hint}>{plain(text)}</th>'


def cell_html(markup: str, style: str = "") -> str:
    """Return a cell of markup."""
    return f'<td style="{_CELL};{style}">{markup}</td>'
