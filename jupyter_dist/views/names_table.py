"""The variables of all ranks, as a table for terminals and as static HTML for notebooks."""

import html

from jupyter_dist.model.names_table import HEADS, HERE, NameRow, NamesTable
from jupyter_dist.views.ansi import strip_ansi

# Mid tones that can be read on a white and on a black page.
_BAD = "rgb(217,67,59)"
_CELL = "text-align:left;padding:1px 14px 1px 0;border:none;background:none;white-space:nowrap"
_TABLE = '<table style="border-collapse:collapse;border:none;margin:0 0 6px 0;font-size:93%">'
_SMALL = '<div style="opacity:0.7;font-size:90%">'
_LEGEND = f"{HERE} not the same on all ranks"


def names_text(table: NamesTable) -> str:
    """Write the memory of ranks, the table, what its mark means, and what is not shown."""
    legend = [_LEGEND] if _has_mark(table) else []
    return strip_ansi("\n".join([*table.lines, *legend, *table.notes])) + "\n"


def names_html(table: NamesTable) -> str:
    """Write the same as one `<div>` with inline styles only."""
    pieces = [f"{_SMALL}{_plain(table.memory)}</div>"] if table.memory else []
    if table.rows:
        columns = [
            index for index in range(len(HEADS)) if any(row.cells[index] for row in table.rows)
        ]
        head = "".join(_cell(HEADS[index], "th", "opacity:0.7") for index in columns)
        body = "".join(_row_html(row, columns) for row in table.rows)
        pieces.append(f"{_TABLE}<tr>{head}</tr>{body}</table>")
    elif table.ranks:
        pieces.append(f"<div>{_plain(table.emptiness)}</div>")
    small = ([_LEGEND] if _has_mark(table) else []) + list(table.notes)
    pieces += [f"{_SMALL}{_plain(text)}</div>" for text in small]
    return f'<div style="padding-left:8px">{"".join(pieces)}</div>'


def names_bundle(table: NamesTable) -> dict[str, str]:
    """Give the MIME bundle for a notebook: static HTML and plain text."""
    return {"text/html": names_html(table), "text/plain": names_text(table)}


def _has_mark(table: NamesTable) -> bool:
    return any(row.is_marked for row in table.rows)


def _row_html(row: NameRow, columns: list[int]) -> str:
    styles = {0: f"color:{_BAD}", 1: "font-weight:bold", len(HEADS) - 1: _remark_style(row)}
    cells = "".join(_cell(row.cells[index], "td", styles.get(index, "")) for index in columns)
    frame = "background:rgba(217,67,59,0.12)" if row.is_marked else "background:none"
    return f'<tr style="{frame}">{cells}</tr>'


def _remark_style(row: NameRow) -> str:
    return "" if row.is_marked else "opacity:0.7"


def _cell(text: str, tag: str, style: str) -> str:
    weight = "font-weight:normal;" if tag == "th" else ""
    return f'<{tag} style="{_CELL};{weight}{style}">{_plain(text)}</{tag}>'


def _plain(text: str) -> str:
    return html.escape(strip_ansi(text))
