"""The last collectives of all ranks, as a table for terminals and as static HTML for notebooks."""

import html
from collections.abc import Mapping, Sequence

from jupyter_dist.model.call_state import CallState, StateKind
from jupyter_dist.model.collective_table import CallRow, CollectiveTable
from jupyter_dist.model.rank import format_ranks, name_ranks
from jupyter_dist.model.text import name_some
from jupyter_dist.views.ansi import strip_ansi

MOST_COLUMNS = 8
"""With more ranks those that look alike share a column."""
_HERE = "▶"
_MARKS: dict[StateKind, str] = {
    "done": "✓",
    "waiting": "⧗",
    "failed": "✗",
    "lost": "✗ lost",
    "never": "\N{EN DASH}",
    "other": "≠",
    "older": "…",
    "unread": "?",
    "apart": "",
}
_MEANINGS: dict[StateKind, str] = {
    "waiting": "waits in it",
    "failed": "failed",
    "never": "never called it",
    "other": "called something else",
    "older": "older than what is shown",
    "unread": "not known",
}
# Mid tones that can be read on a white and on a black page.
_BAD, _WAITS, _GOOD = "rgb(217,67,59)", "rgb(176,133,0)", "rgb(46,150,68)"
_COLOURS: dict[StateKind, str] = {
    "done": _GOOD,
    "waiting": _WAITS,
    "failed": _BAD,
    "lost": _BAD,
    "never": _BAD,
    "other": _BAD,
}
_CELL = "text-align:left;padding:1px 14px 1px 0;border:none;background:none;white-space:nowrap"
_TABLE = '<table style="border-collapse:collapse;border:none;margin:0 0 6px 0;font-size:93%">'
_SMALL = '<div style="opacity:0.7;font-size:90%">'
_NOTHING = "No rank has called a collective yet."

Column = tuple[int, ...]


def collectives_text(table: CollectiveTable) -> str:
    """Write the table, where ranks went apart, what the marks mean, and what is not shown."""
    columns = find_columns(table)
    parts = [_NOTHING]
    if table.rows:
        rows = [[head for head, _ in _heads(columns)]]
        for row in table.rows:
            states = [common_state(row.states, ranks) for ranks in columns]
            rows.append([*_front(row), *(_state_text(state, is_most) for state, is_most in states)])
        parts = [_align(rows), _legend(table)]
    if table.verdict:
        parts.insert(1, f"{_HERE} {table.verdict}")
    parts.append("\n".join(table.notes))
    return strip_ansi("\n".join(part for part in parts if part)) + "\n"


def collectives_bundle(table: CollectiveTable) -> dict[str, str]:
    """Give the MIME bundle for a notebook: static HTML and plain text."""
    return {"text/html": collectives_html(table), "text/plain": collectives_text(table)}


def collectives_html(table: CollectiveTable) -> str:
    """Write the same as one `<div>` with inline styles only."""
    columns = find_columns(table)
    pieces = [f"<div>{_NOTHING}</div>"]
    if table.rows:
        head = "".join(_cell(text, "th", title=title) for text, title in _heads(columns))
        body = "".join(_row_html(row, columns) for row in table.rows)
        pieces = [f"{_TABLE}<tr>{head}</tr>{body}</table>"]
    if table.verdict:
        frame = f"margin:0 0 4px 0;padding-left:6px;border-left:3px solid {_BAD}"
        mark = f'<b style="color:{_BAD}">{_HERE}</b>'
        pieces.append(f'<div style="{frame}">{mark} {_plain(table.verdict)}</div>')
    small = (_legend(table) if table.rows else "", *table.notes)
    pieces += [f"{_SMALL}{_plain(text)}</div>" for text in small if text]
    return f'<div style="padding-left:8px">{"".join(pieces)}</div>'


# --- what stands in the table ---


def find_columns(table: CollectiveTable) -> list[Column]:
    """Give the ranks of each column: one, or with many ranks all that look alike in every row."""
    if len(table.ranks) <= MOST_COLUMNS:
        return [(rank,) for rank in table.ranks]
    alike: dict[tuple[StateKind, ...], list[int]] = {}
    for rank in table.ranks:
        look = tuple(row.states[rank].kind for row in table.rows)
        alike.setdefault(look, []).append(rank)
    return [tuple(ranks) for ranks in alike.values()]


def common_state(states: Mapping[int, CallState], ranks: Column) -> tuple[CallState, bool]:
    """Give what ranks that look alike have in common: the longest time, and whether others differ.

    Times differ always; only what a person would read as another time counts.
    """
    found = [states[rank] for rank in ranks]
    longest = max(found, key=lambda state: state.seconds)
    return longest, len({duration_text(state.seconds) for state in found}) > 1


def duration_text(seconds: float) -> str:
    """Write a time as short as it can be read: `0.12 ms`, `35 ms`, `1.2 s`, `95 s`."""
    if seconds < 0.001:
        return f"{seconds * 1e3:.2f} ms"
    if seconds < 0.9995:
        milliseconds = seconds * 1e3
        return f"{milliseconds:.1f} ms" if milliseconds < 9.95 else f"{milliseconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def _heads(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Give the titles of all columns, with what they are in full."""
    heads = [("", ""), ("#", "number"), ("call", ""), ("site", "where the cell called it")]
    for ranks in columns:
        text = format_ranks(ranks)
        heads.append((text if len(ranks) == 1 else f"[{text}]", name_ranks(ranks)))
    return heads


def _front(row: CallRow) -> list[str]:
    return [
        _HERE if row.is_marked else "",
        f"{row.framework} {row.number}".strip() if row.number else "",
        row.what,
        name_some(row.sites),
    ]


def _state_text(state: CallState, is_most: bool) -> str:
    return " ".join(part for part in (_MARKS[state.kind], _time_text(state, is_most)) if part)


def _time_text(state: CallState, is_most: bool) -> str:
    if state.kind not in ("done", "waiting", "failed", "lost"):
        return ""
    return f"{'≤ ' if is_most else ''}{duration_text(state.seconds)}"


def _legend(table: CollectiveTable) -> str:
    """Explain the marks that are there, apart from the one of a good end."""
    shown = {state.kind for row in table.rows for state in row.states.values()}
    return "  ".join(f"{_MARKS[kind]} {text}" for kind, text in _MEANINGS.items() if kind in shown)


# --- as text ---


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:>{width}}" if number == 1 else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


# --- as HTML ---


def _row_html(row: CallRow, columns: Sequence[Column]) -> str:
    mark, *texts = _front(row)
    cells = [_cell(mark, "td", f"color:{_BAD}"), *(_cell(text, "td") for text in texts)]
    for ranks in columns:
        state, is_most = common_state(row.states, ranks)
        colour = _COLOURS.get(state.kind)
        style = f"color:{colour}" if colour else "opacity:0.5"
        shown = f'<b style="{style}">{_MARKS[state.kind]}</b> {_plain(_time_text(state, is_most))}'
        cells.append(f'<td style="{_CELL}">{shown.rstrip()}</td>')
    frame = "background:rgba(217,67,59,0.12)" if row.is_marked else "background:none"
    return f'<tr style="{frame}">{"".join(cells)}</tr>'


def _cell(text: str, tag: str, style: str = "", title: str = "") -> str:
    weight = "font-weight:normal;opacity:0.7" if tag == "th" else style
    hint = f' title="{html.escape(title)}"' if title else ""
    return f'<{tag} style="{_CELL};{weight}"{hint}>{_plain(text)}</{tag}>'


def _plain(text: str) -> str:
    return html.escape(strip_ansi(text))
