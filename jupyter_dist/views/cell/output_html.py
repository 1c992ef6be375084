"""A cell's picture as static HTML: inline styles only, so that an untrusted notebook shows it."""

import html
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec

from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.text.sizes import tell_size
from jupyter_dist.views.cell.cell_picture import CellPicture, ValueGroup
from jupyter_dist.views.cell.crash_card import crash_html
from jupyter_dist.views.cell.output_text import (
    ERRORS_CAP,
    TRACEBACK_CAP,
    cap_text,
    full_label,
    heading_text,
    left_out_sentence,
    more_errors_sentence,
    notes_lines,
    other_messages,
    prefixes,
    render_text,
    row_text,
    value_lines,
)
from jupyter_dist.views.cell.undrawn import drawn_or_told, undrawn_bundle
from jupyter_dist.views.outputs.ansi import ansi_to_html, strip_ansi
from jupyter_dist.views.outputs.blocks import Block, count_lines, fit_block
from jupyter_dist.views.outputs.grouping import Row, label_ranks
from jupyter_dist.views.outputs.rich_outputs import RichOutput
from jupyter_dist.views.progress.bar_html import bars_html

LINES_CAP = 160 * 1024
"""Bytes that the lines of a saved cell may take, HTML and plain text together."""
RICH_CAP = 8 * 1024 * 1024
"""Characters that the rich outputs of a saved cell may take."""
_BLOCK_COST = 220  # bytes of a block besides its lines
_OPEN_GROUPS = 8
_FEW_ROWS = 80
_UNFOLDED_ROWS = 3
"""Lines of a group that need no heading to fold them away."""
_STRIP_WIDTH = 64
# The size and the edge of what a notebook prints itself.
_PRE = '<pre style="margin:0;padding:0;white-space:pre-wrap;font-family:monospace;font-size:93%">'
_INDENT = "padding-left:8px"
_SMALL = '<div style="opacity:0.7;font-size:90%">'
_SUMMARY = '<summary style="opacity:0.7;font-size:90%">'
_ROW_STYLES = {
    "stderr": "background-color:rgba(217,67,59,0.13)",
    "note": "font-style:italic",
}
_STATE_COLOURS = {
    "running": "rgb(59,130,246)",
    "ok": "rgb(46,150,68)",
    "raised": "rgb(217,67,59)",
    "lost": "rgb(135,135,135)",
}
_OTHER_STATE_COLOUR = "rgb(176,133,0)"


def saved_bundle(picture: CellPicture) -> dict[str, str]:
    """Return the MIME bundle that stays in the notebook: static HTML and plain text, capped."""

    def draw() -> dict[str, str]:
        fitted = _fit(picture)
        return {"text/html": render_html(fitted), "text/plain": render_text(fitted)}

    return drawn_or_told(draw, lambda problem: undrawn_bundle(picture, problem))


def live_bundle(picture: CellPicture) -> dict[str, str]:
    """Return the MIME bundle of a running cell; its plain text is the header only."""

    def draw() -> dict[str, str]:
        notes = "".join(f" {line}" for line in notes_lines(picture.notes))
        return {"text/html": render_html(picture), "text/plain": picture.header + notes}

    return drawn_or_told(draw, lambda problem: undrawn_bundle(picture, problem))


def render_html(picture: CellPicture) -> str:
    """Write the picture as one `<div>`."""
    rich_room = _Room(RICH_CAP)
    pieces = [_strip(picture.states)]
    pieces += _blocks(picture, rich_room)
    pieces += bars_html(picture.bars)
    pieces += _values(picture.values, rich_room)
    pieces.append(crash_html(picture.crashes, picture.survivors))
    pieces += [_error(picture, index) for index in range(min(len(picture.errors), ERRORS_CAP))]
    if more := more_errors_sentence(picture):
        pieces.append(f"<div>{more}</div>")
    if picture.hidden:
        pieces.append(f"{_SMALL}<i>… {html.escape(picture.hidden, quote=False)}</i></div>")
    notes = [f"<i>{html.escape(line)}</i>" for line in notes_lines(picture.notes)]
    if picture.is_live:
        notes[:1] = [" ".join([html.escape(picture.header), *notes[:1]])]
    pieces += [f"{_SMALL}{note}</div>" for note in notes]
    return f'<div style="{_INDENT}">{"".join(pieces)}</div>'


class _Room:
    """How many characters of rich output may still be saved."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        if size > self._left:
            return False
        self._left -= size
        return True


def _fit(picture: CellPicture) -> CellPicture:
    left = max(0, LINES_CAP - _BLOCK_COST * len(picture.blocks))
    blocks = []
    for index, block in enumerate(picture.blocks):
        cost = partial(_line_cost, prefixes(block))
        fitted = fit_block(block, left // (len(picture.blocks) - index), cost)
        left -= sum(map(cost, fitted.rows))
        blocks.append(fitted)
    return msgspec.structs.replace(picture, blocks=blocks)


def _line_cost(labels: Mapping[tuple[int, ...], str], row: Row) -> int:
    """Return the bytes that a row takes in the saved output; 0 for a rich one."""
    if row.entry.rich is not None:
        return 0
    prefix = labels[row.ranks]
    return _size(_row_html(row, prefix)) + _size(row_text(row, prefix))


def _size(text: str) -> int:
    return len(text) + 1 if text.isascii() else len(text.encode("utf-8", "replace")) + 1


def _blocks(picture: CellPicture, room: _Room) -> list[str]:
    blocks = picture.blocks
    is_short = sum(count_lines(block.rows) for block in blocks) <= _FEW_ROWS
    pieces = [
        _block(block, picture, room, is_open=is_short or index < _OPEN_GROUPS)
        for index, block in enumerate(blocks)
    ]
    if len(pieces) <= _OPEN_GROUPS or is_short:
        return pieces
    hidden = blocks[_OPEN_GROUPS:]
    ranks = {rank for block in hidden for row in block.rows for rank in row.ranks}
    summary = f"{len(hidden)} more groups: {name_ranks(ranks)}"
    folded = "".join(pieces[_OPEN_GROUPS:])
    return [*pieces[:_OPEN_GROUPS], f"<details><summary>{summary}</summary>{folded}</details>"]


def _block(block: Block, picture: CellPicture, room: _Room, *, is_open: bool) -> str:
    """Write a block; among several, one of more than a few lines can be folded away."""
    labels = prefixes(block)
    pieces = _rows(block.before, labels, room)
    if block.left_out:
        sentence = html.escape(left_out_sentence(block.left_out, picture))
        pieces.append(f"{_SMALL}<i>{sentence}</i></div>")
    body = "".join(pieces + _rows(block.after, labels, room))
    count = count_lines(block.rows) + block.left_out
    if len(labels) == 1 and len(picture.blocks) > 1 and count > _UNFOLDED_ROWS:
        (ranks,) = labels
        heading = f"{name_ranks(ranks)} · {count:,} lines"
        opened = " open" if is_open else ""
        return f"<details{opened}>{_SUMMARY}{heading}</summary>{body}</details>"
    heading = full_label(block)
    return f"{_SMALL}{heading}:</div>{body}" if heading else body


def _rows(rows: Sequence[Row], labels: Mapping[tuple[int, ...], str], room: _Room) -> list[str]:
    """Write runs of lines as one `<pre>` each, with the rich outputs between them."""
    pieces: list[str] = []
    for rich, run in groupby(rows, lambda row: row.entry.rich):
        if rich is None:
            lines = "".join(_row_html(row, labels[row.ranks]) for row in run)
            pieces.append(f"{_PRE}{lines}</pre>")
            continue
        for row in run:
            label = labels[row.ranks].strip()
            pieces.append(f'{_SMALL}<span style="font-family:monospace">{label}</span></div>')
            pieces.append(_rich(rich, room))
    return pieces


def _row_html(row: Row, prefix: str) -> str:
    style = _ROW_STYLES.get(row.entry.kind)
    pieces = []
    for line in row.entry.content.split("\n"):
        content = ansi_to_html(line)
        if style:
            content = f'<span style="{style}">{content}</span>'
        pieces.append(f'<span style="opacity:0.6">{prefix}</span>{content}\n')
    return "".join(pieces)


def _rich(rich: RichOutput, room: _Room) -> str:
    if not room.take(len(rich.payload)):
        size = tell_size(len(rich.payload))
        return f"<div><i>{rich.mime} of {size} left out of the saved output</i></div>"
    if rich.mime.startswith("image/"):
        width, height = rich.size or (0, 0)
        size = f' width="{width}" height="{height}"' if rich.size else ""
        source = f"data:{rich.mime};base64,{html.escape(rich.payload)}"
        alternative = html.escape(cap_text(rich.plain, 200))
        return f'<div><img src="{source}"{size} alt="{alternative}"></div>'
    if rich.mime == "text/html":
        return f"<div>{rich.payload}</div>"
    if rich.mime == "text/latex":
        return f"<div>{html.escape(rich.payload, quote=False)}</div>"
    return f"{_PRE}{ansi_to_html(rich.payload)}</pre>"


def _values(values: Sequence[ValueGroup], room: _Room) -> list[str]:
    if all(group.value.is_text for group in values):
        lines = value_lines(values)
        return [f"{_PRE}{ansi_to_html(chr(10).join(lines))}</pre>"] if lines else []
    pieces = []
    for group in values:
        if group.value.is_text:
            pieces.append(f"{_PRE}{ansi_to_html(chr(10).join(value_lines([group])))}</pre>")
            continue
        head = f"Out{label_ranks(group.ranks)}:"
        pieces.append(f"{_PRE}{head}</pre>{_rich(group.value, room)}")
    return pieces


def _error(picture: CellPicture, index: int) -> str:
    group = picture.errors[index]
    heading = f"<b>{html.escape(strip_ansi(heading_text(group)), quote=False)}</b>"
    others = [html.escape(strip_ansi(text), quote=False) for text in other_messages(group)]
    body = f"{_PRE}{chr(10).join(others)}</pre>" if others else ""
    # A page of many different tracebacks is no page; the first eight are kept.
    if index < _OPEN_GROUPS and picture.raised_rank not in group.ranks and group.traceback:
        cap = TRACEBACK_CAP if index == 0 else TRACEBACK_CAP // 4
        body += f"{_PRE}{ansi_to_html(cap_text(group.traceback, cap))}</pre>"
    shown = f"{heading}{body}"
    is_open = index == 0 and picture.raised_rank is None and not picture.crashes
    if body and not is_open:
        shown = f"<details><summary>{heading}</summary>{body}</details>"
    colour = _STATE_COLOURS.get(group.status, _OTHER_STATE_COLOUR)
    frame = f"margin-top:4px;padding-left:6px;border-left:3px solid {colour}"
    return f'<div style="{frame}">{shown}</div>'


def _strip(states: Mapping[str, tuple[int, ...]]) -> str:
    """Draw one small box for each rank, coloured by its state, in lines of 64."""
    if not states:
        return ""
    state_of = {rank: state for state, ranks in states.items() for rank in ranks}
    ranks = sorted(state_of)
    width = len(str(ranks[-1]))
    lines = []
    for start in range(0, len(ranks), _STRIP_WIDTH):
        line = ranks[start : start + _STRIP_WIDTH]
        lines.append(f"{line[0]:>{width}} {_boxes(line, state_of)}")
    counts = " · ".join(f"{len(of)} {state.replace('_', ' ')}" for state, of in states.items())
    text = "\n".join(lines)
    return f'<pre style="margin:0;padding:0;line-height:1.1">{text}\n{counts}</pre>'


def _boxes(ranks: Sequence[int], state_of: Mapping[int, str]) -> str:
    pieces = []
    for state, run in groupby(ranks, state_of.__getitem__):
        alike = list(run)
        colour = _STATE_COLOURS.get(state, _OTHER_STATE_COLOUR)
        title = f"{format_ranks(alike)}: {state}"
        pieces.append(f'<span style="color:{colour}" title="{title}">{"■" * len(alike)}</span>')
    return "".join(pieces)
