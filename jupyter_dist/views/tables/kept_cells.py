"""The cells whose outputs are kept, as a table."""

import time
from collections.abc import Sequence

from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.protocol.messages import KeptCell
from jupyter_dist.text.columns import align
from jupyter_dist.text.sizes import tell_size

_CODE_WIDTH = 50
_HEADS = ("cell", "began", "ranks", "output", "code")


def kept_cells_text(cells: Sequence[KeptCell]) -> str:
    """Write one line for each cell, the newest last."""
    if not cells:
        return "no cell has run on this cluster yet"
    return "\n".join(align([_HEADS, *(_row(cell) for cell in cells)]))


def name_start(cell: KeptCell) -> str:
    """Return when and where it began: `12:03:05 on ranks 0-3: loss = train()`."""
    where = f"{_clock(cell)} on {name_ranks(cell.ranks)}{cell.by and f' by {cell.by}'}"
    return f"{where}: {_first_line(cell.code)}".rstrip(": ")


def _row(cell: KeptCell) -> tuple[str, ...]:
    size = tell_size(cell.kept_bytes)
    state = ", ".join(filter(None, (size, "running" if cell.is_running else "", cell.by)))
    return (cell.label, _clock(cell), format_ranks(cell.ranks), state, _first_line(cell.code))


def _clock(cell: KeptCell) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(cell.started_s))
    except (ValueError, OverflowError, OSError):
        return "?"


def _first_line(code: str) -> str:
    """Return the first line that says something; comments do not."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    first = next((line for line in lines if not line.startswith("#")), "")
    return first if len(first) <= _CODE_WIDTH else f"{first[: _CODE_WIDTH - 1]}…"
