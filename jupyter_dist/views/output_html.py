"""A cell's picture as static HTML: inline styles only, so that an untrusted notebook shows it."""

import html
from collections.abc import Mapping, Sequence

import msgspec

from jupyter_dist.model.rank import format_ranks, name_ranks
from jupyter_dist.views.ansi import ansi_to_html, strip_ansi
from jupyter_dist.views.blocks import Block, count_lines, fit_block
from jupyter_dist.views.cell_picture import CellPicture, ValueGroup
from jupyter_dist.views.crash_card import crash_html
from jupyter_dist.views.grouping import ErrorGroup, Row, label_ranks
from jupyter_dist.views.output_text import (
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
from jupyter_dist.views.progress_html import bars_html
from jupyter_dist.views.rich import RichOutput
from jupyter_dist.views.undrawn import drawn_or_told, undrawn_bundle

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
    """Give the MIME bundle that stays in the notebook: static HTML and plain text, capped."""

    def draw() -> dict[str, str]:
        fitted = _fit(picture)
        return {"text/html": render_html(fitted), "text/plain": render_text(fitted)}

    return drawn_or_told(draw, lambda problem: undrawn_bundle(picture, problem))


def live_bundle(picture: CellPicture) -> dict[str, str]:
    """Give the MIME bundle of a running cell; its plain text is the header only."""

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
        cost = _LineCost(prefixes(block))
        fitted = fit_block(block, left // (len(picture.blocks) - index), cost)
        left -= sum(map(cost, (*fitted.before, *fitted.after)))
        blocks.append(fitted)
    return msgspec.structs.replace(picture, blocks=blocks)


class _LineCost:
    """Bytes that a row takes in the saved output; nothing for a rich one."""

    def __init__(self, labels: Mapping[tuple[int, ...], str]) -> None:
        self._labels = labels

    def __call__(self, row: Row) -> int:
        if row.entry.rich is not None:
            return 0
        prefix = self._labels[row.ranks]
        return _size(_row_html(row, prefix)) + _size(row_text(row, prefix))


def _size(text: str) -> int:
    return len(text) + 1 if text.isascii() else len(text.encode("utf-8", "replace")) + 1


def _blocks(picture: CellPicture, room: _Room) -> list[str]:
    blocks = picture.blocks
    rows = sum(count_lines(block.before) + count_lines(block.after) for block in blocks)
    is_short = rows <= _FEW_ROWS
    pieces = [
        _block(block, picture, room, is_open=is_short or index < _OPEN_GROUPS)
        for index, block in enumerate(blocks)
    ]
    if len(pieces) <= _OPEN_GROUPS or is_short:
        return pieces
    hidden = blocks[_OPEN_GROUPS:]
    ranks = {rank for b in hidden for row in (*b.before, *b.after) for rank in row.ranks}
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
    count = count_lines(block.before) + block.left_out + count_lines(block.after)
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
    lines: list[str] = []
    for row in rows:
        if row.entry.rich is None:
            lines.append(_row_html(row, labels[row.ranks]))
            continue
        if lines:
            pieces.append(f"{_PRE}{''.join(lines)}</pre>")
            lines = []
        label = labels[row.ranks].strip()
        pieces.append(f'{_SMALL}<span style="font-family:monospace">{label}</span></div>')
        pieces.append(_rich(row.entry.rich, room))
    if lines:
        pieces.append(f"{_PRE}{''.join(lines)}</pre>")
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
        size = f"{len(rich.payload) / 2**20:.1f} MiB"
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
    if picture.raised_rank not in group.ranks and group.traceback:
        # A page of many different tracebacks is no page; the first eight are kept.
        shown = group.traceback if index < _OPEN_GROUPS else ""
        cap = TRACEBACK_CAP if index == 0 else TRACEBACK_CAP // 4
        body += f"{_PRE}{ansi_to_html(cap_text(shown, cap))}</pre>" if shown else ""
    if not body:
        return f"{_error_frame(group)}{heading}</div>"
    is_open = index == 0 and picture.raised_rank is None and not picture.crashes
    if is_open:
        return f"{_error_frame(group)}{heading}{body}</div>"
    folded = f"<details><summary>{heading}</summary>{body}</details>"
    return f"{_error_frame(group)}{folded}</div>"


def _error_frame(group: ErrorGroup) -> str:
    colour = _STATE_COLOURS.get(group.status, _OTHER_STATE_COLOUR)
    return f'<div style="margin-top:4px;padding-left:6px;border-left:3px solid {colour}">'


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
    start = 0
    for end in range(1, len(ranks) + 1):
        if end < len(ranks) and state_of[ranks[end]] == state_of[ranks[start]]:
            continue
        state = state_of[ranks[start]]
        colour = _STATE_COLOURS.get(state, _OTHER_STATE_COLOUR)
        title = f"{format_ranks(ranks[start:end])}: {state}"
        boxes = "■" * (end - start)
        pieces.append(f'<span style="color:{colour}" title="{title}">{boxes}</span>')
        start = end
    return "".join(pieces)
