"""The last collectives of all ranks, as a table for terminals and as static HTML for notebooks."""

from collections.abc import Mapping, Sequence

from jupyter_dist.cluster.collectives.collective_table import CallRow, CollectiveTable
from jupyter_dist.cluster.collectives.shared_calls import CallState, StateKind
from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.text.columns import align
from jupyter_dist.text.lists import name_some
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.outputs.grouping import group_equal
from jupyter_dist.views.tables.table import (
    BAD,
    GOOD,
    WARNING,
    cell_html,
    head_html,
    markable_row_html,
    marked_html,
    page_html,
    plain,
    row_html,
    small_html,
    table_html,
)

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
_COLOURS: dict[StateKind, str] = {
    "done": GOOD,
    "waiting": WARNING,
    "failed": BAD,
    "lost": BAD,
    "never": BAD,
    "other": BAD,
}
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
        parts = ["\n".join(align(rows, right=(1,))), _legend(table)]
    if table.verdict:
        parts.insert(1, f"{_HERE} {table.verdict}")
    parts.append("\n".join(table.notes))
    return strip_ansi("\n".join(part for part in parts if part)) + "\n"


def collectives_html(table: CollectiveTable) -> str:
    """Write the same as one `<div>` with inline styles only."""
    columns = find_columns(table)
    pieces = [f"<div>{_NOTHING}</div>"]
    if table.rows:
        head = row_html(head_html(text, title=title) for text, title in _heads(columns))
        pieces = [table_html([head, *(_row_html(row, columns) for row in table.rows)])]
    if table.verdict:
        pieces.append(marked_html(_HERE, BAD, plain(table.verdict)))
    small = (_legend(table) if table.rows else "", *table.notes)
    return page_html([*pieces, *map(small_html, filter(None, small))])


# --- what stands in the table ---


def find_columns(table: CollectiveTable) -> list[Column]:
    """Return the ranks of each column: one, or with many ranks all that look alike in every row."""
    if len(table.ranks) <= MOST_COLUMNS:
        return [(rank,) for rank in table.ranks]
    return group_equal(
        {rank: tuple(row.states[rank].kind for row in table.rows) for rank in table.ranks}
    )


def common_state(states: Mapping[int, CallState], ranks: Column) -> tuple[CallState, bool]:
    """Return what ranks that look alike share: the longest time, and whether others differ.

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
    """Return the titles of all columns, with what they are in full."""
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


# --- as HTML ---


def _row_html(row: CallRow, columns: Sequence[Column]) -> str:
    mark, *texts = _front(row)
    cells = [cell_html(mark, f"color:{BAD}"), *(cell_html(plain(text)) for text in texts)]
    for ranks in columns:
        state, is_most = common_state(row.states, ranks)
        colour = _COLOURS.get(state.kind)
        style = f"color:{colour}" if colour else "opacity:0.7"
        shown = f'<b style="{style}">{_MARKS[state.kind]}</b> {plain(_time_text(state, is_most))}'
        cells.append(cell_html(shown.rstrip()))
    return markable_row_html(cells, is_marked=row.is_marked)
