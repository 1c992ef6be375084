"""What is shown where drawing has failed: plain text, and one line why."""

import html
from collections.abc import Callable, Iterator
from typing import TypeVar

from jupyter_dist.text.lists import on_one_line
from jupyter_dist.views.cell.cell_picture import CellPicture
from jupyter_dist.views.outputs.grouping import label_ranks
from jupyter_dist.views.outputs.lines import encodable

_LINE_CAP = 2000
_TEXT_CAP = 64 * 1024
Drawn = TypeVar("Drawn")


def explain_undrawn(what: str, problem: BaseException) -> str:
    """Say in one line that something cannot be drawn, and why."""
    try:
        reason = on_one_line(f"{type(problem).__name__}: {problem}")
    except Exception:  # noqa: BLE001  (an error's own text may raise anything)
        reason = type(problem).__name__
    return encodable(f"[{what} cannot be drawn: {reason}]")


def drawn_or_told(draw: Callable[[], Drawn], tell: Callable[[Exception], Drawn]) -> Drawn:
    """Draw; give what `tell` makes of the error where that fails."""
    try:
        return draw()
    except Exception as problem:  # noqa: BLE001  (outputs may be anything; a cell must not fail)
        return tell(problem)


def undrawn_bundle(picture: CellPicture, problem: Exception) -> dict[str, str]:
    """Return as a MIME bundle what a picture has to say in plain lines, and why it is not drawn."""
    lines = [explain_undrawn("this cell", problem)]
    room = _TEXT_CAP
    for line in _tell(picture):
        lines.append(encodable(line[:_LINE_CAP]))
        room -= len(lines[-1])
        if room < 0:
            lines[-1] = "… more is in the result, and in the log of each host"
            break
    text = "\n".join(lines)
    return {"text/html": f"<pre>{html.escape(text)}</pre>", "text/plain": text}


def _tell(picture: CellPicture) -> Iterator[str]:
    for block in picture.blocks:
        for row in block.rows:
            rich = row.entry.rich
            text = rich.plain if rich is not None else row.entry.content
            yield f"{label_ranks(row.ranks)} {text}"
    for group in picture.values:
        yield f"Out{label_ranks(group.ranks)} {group.value.plain}"
    for error in picture.errors:
        yield error.heading
        for text, ranks in error.messages:
            yield f"{label_ranks(ranks)} {text}"
    for crash in picture.crashes:
        yield f"rank {crash.rank} is lost"
    yield from filter(None, (*picture.notes, picture.header))
