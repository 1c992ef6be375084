"""The variables of all ranks, as a table for terminals and as static HTML for notebooks."""

from jupyter_dist.cluster.variables.names_table import HEADS, HERE, NameRow, NamesTable
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.tables.table import (
    BAD,
    cell_html,
    head_html,
    markable_row_html,
    page_html,
    plain,
    row_html,
    small_html,
    table_html,
)

_LEGEND = f"{HERE} not the same on all ranks"


def names_text(table: NamesTable) -> str:
    """Write the memory of ranks, the table, what its mark means, and what is not shown."""
    legend = [_LEGEND] if _has_mark(table) else []
    return strip_ansi("\n".join([*table.lines, *legend, *table.notes])) + "\n"


def names_html(table: NamesTable) -> str:
    """Write the same as one `<div>` with inline styles only."""
    pieces = [small_html(table.memory)] if table.memory else []
    if table.rows:
        columns = [
            index for index in range(len(HEADS)) if any(row.cells[index] for row in table.rows)
        ]
        head = row_html(head_html(HEADS[index]) for index in columns)
        pieces.append(table_html([head, *(_row_html(row, columns) for row in table.rows)]))
    elif table.ranks:
        pieces.append(f"<div>{plain(table.emptiness)}</div>")
    small = ([_LEGEND] if _has_mark(table) else []) + list(table.notes)
    return page_html([*pieces, *map(small_html, small)])


def _has_mark(table: NamesTable) -> bool:
    return any(row.is_marked for row in table.rows)


def _row_html(row: NameRow, columns: list[int]) -> str:
    styles = {0: f"color:{BAD}", 1: "font-weight:bold", len(HEADS) - 1: _remark_style(row)}
    cells = [cell_html(plain(row.cells[index]), styles.get(index, "")) for index in columns]
    return markable_row_html(cells, is_marked=row.is_marked)


def _remark_style(row: NameRow) -> str:
    return "" if row.is_marked else "opacity:0.7"
