"""What is shown where drawing has failed: plain text, and one line why."""

import html
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TypeVar

from jupyter_dist.text.lists import on_one_line
from jupyter_dist.views.cell.cell_picture import CellPicture, ValueGroup
from jupyter_dist.views.outputs.grouping import Row
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


def undrawn_lines(picture: CellPicture, problem: Exception) -> list[str]:
    """Return what a picture has to say as plain lines, and why it is not drawn."""
    lines = [explain_undrawn("this cell", problem)]
    room = _TEXT_CAP
    for line in _tell(picture):
        room -= len(line)
        if room < 0:
            lines.append("… more is in the result, and in the log of each host")
            break
        lines.append(line)
    return lines


def undrawn_bundle(picture: CellPicture, problem: Exception) -> dict[str, str]:
    """Return the same as a MIME bundle."""
    text = "\n".join(undrawn_lines(picture, problem))
    return {"text/html": f"<pre>{html.escape(text)}</pre>", "text/plain": text}


def _tell(picture: CellPicture) -> Iterator[str]:
    for block in picture.blocks:
        for row in block.rows:
            yield _safe(_row, row)
    for group in picture.values:
        yield _safe(_value, group)
    for error in picture.errors:
        yield _safe(attrgetter("heading"), error)
        for text, ranks in error.messages:
            yield _safe(_line, ranks, text)
    for crash in picture.crashes:
        yield _safe("rank {0.rank} is lost".format, crash)
    for note in (*picture.notes, picture.header):
        if note:
            yield _safe(str, note)


def _row(row: Row) -> str:
    rich = row.entry.rich
    return _line(row.ranks, rich.plain if rich is not None else row.entry.content)


def _value(group: ValueGroup) -> str:
    return f"Out{_line(group.ranks, group.value.plain)}"


def _line(ranks: tuple[int, ...], text: str) -> str:
    shown = ",".join(map(str, ranks[:8]))
    return f"[{shown}{',…' if len(ranks) > 8 else ''}] {text}"


def _safe(make: Callable[..., str], *of: object) -> str:
    line = drawn_or_told(lambda: make(*of), lambda problem: explain_undrawn("a line", problem))
    return encodable(str(line)[:_LINE_CAP])
