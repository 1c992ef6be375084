"""A cell's picture as static HTML: inline styles only, so that an untrusted notebook shows it."""

import html
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby

import msgspec

from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
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
from jupyter_dist.views.cell.rich_html import PRE, SMALL, RichHtml
from jupyter_dist.views.cell.undrawn import drawn_or_told, undrawn_bundle
from jupyter_dist.views.outputs.ansi import ansi_to_html, strip_ansi
from jupyter_dist.views.outputs.blocks import Block, count_lines, fit_block
from jupyter_dist.views.outputs.grouping import Row, label_ranks
from jupyter_dist.views.progress.bar_html import bars_html

LINES_CAP = 160 * 1024
"""Bytes that the lines of a saved cell may take, HTML and plain text together."""
_BLOCK_COST = 220  # bytes of a block besides its lines
_LINE_COST = 140  # bytes of a line besides its characters and prefixes, at most
_CHARACTER_COST = 9  # bytes of a character in both, at most: escaped, or of four bytes
_OPEN_GROUPS = 8
_FEW_ROWS = 80
_UNFOLDED_ROWS = 3
"""Lines of a group that need no heading to fold them away."""
_STRIP_WIDTH = 64
_MOST_BOXES = 512
"""Of more ranks a box of the strip is several, and has the worst of their states."""
_WORST_FIRST = {"lost": 0, "raised": 1, "running": 3, "ok": 4}
_OTHER_BADNESS = 2
_INDENT = "padding-left:8px"
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
    rich = RichHtml(picture.figures)
    pieces = [_strip(picture.states)]
    pieces += _blocks(picture, rich)
    pieces += bars_html(picture.bars, has_times=picture.has_times)
    pieces += _values(picture.values, rich)
    pieces.append(crash_html(picture.crashes, picture.survivors))
    pieces += [_error(picture, index) for index in range(min(len(picture.errors), ERRORS_CAP))]
    if more := more_errors_sentence(picture):
        pieces.append(f"<div>{more}</div>")
    if picture.hidden:
        pieces.append(f"{SMALL}<i>… {html.escape(picture.hidden, quote=False)}</i></div>")
    notes = [f"<i>{html.escape(line)}</i>" for line in notes_lines(picture.notes)]
    if picture.is_live:
        notes[:1] = [" ".join([html.escape(picture.header), *notes[:1]])]
    pieces += [f"{SMALL}{note}</div>" for note in notes]
    return f'<div style="{_INDENT}">{"".join(pieces)}</div>'


def _fit(picture: CellPicture) -> CellPicture:
    left = max(0, LINES_CAP - _BLOCK_COST * len(picture.blocks))
    if sum(_most_cost(block) for block in picture.blocks) <= left:
        return picture
    blocks: list[Block] = []
    for behind in range(len(picture.blocks) - 1, -1, -1):
        block = picture.blocks[len(blocks)]
        cost = partial(_line_cost, prefixes(block))
        fitted = fit_block(block, left // (behind + 1), cost)
        left -= sum(map(cost, fitted.rows)) if behind else 0
        blocks.append(fitted)
    return msgspec.structs.replace(picture, blocks=blocks)


def _most_cost(block: Block) -> int:
    """Return a bound on what the lines of a block cost, which is found without writing them."""
    rows = [row.entry.content for row in block.rows if row.entry.rich is None]
    text = "\n".join(rows)
    if "\x1b" in text:  # colours take more
        return LINES_CAP + 1
    longest = max(map(len, prefixes(block).values()), default=0)
    return (text.count("\n") + 1) * (_LINE_COST + 2 * longest) + _CHARACTER_COST * len(text)


def _line_cost(labels: Mapping[tuple[int, ...], str], row: Row) -> int:
    """Return the bytes that a row takes in the saved output; 0 for a rich one."""
    if row.entry.rich is not None:
        return 0
    prefix = labels[row.ranks]
    return _size(_row_html(row, prefix)) + _size(row_text(row, prefix))


def _size(text: str) -> int:
    return len(text) + 1 if text.isascii() else len(text.encode("utf-8", "replace")) + 1


def _blocks(picture: CellPicture, rich: RichHtml) -> list[str]:
    blocks = picture.blocks
    is_short = sum(count_lines(block.rows) for block in blocks) <= _FEW_ROWS
    pieces = [
        _block(block, picture, rich, is_open=is_short or index < _OPEN_GROUPS)
        for index, block in enumerate(blocks)
    ]
    if len(pieces) <= _OPEN_GROUPS or is_short:
        return pieces
    hidden = blocks[_OPEN_GROUPS:]
    ranks = {rank for block in hidden for row in block.rows for rank in row.ranks}
    summary = f"{len(hidden)} more groups: {name_ranks(ranks)}"
    folded = "".join(pieces[_OPEN_GROUPS:])
    return [*pieces[:_OPEN_GROUPS], f"<details><summary>{summary}</summary>{folded}</details>"]


def _block(block: Block, picture: CellPicture, rich: RichHtml, *, is_open: bool) -> str:
    """Write a block; among several, one of more than a few lines can be folded away."""
    labels = prefixes(block)
    pieces = _rows(block.before, labels, rich)
    if block.left_out:
        sentence = html.escape(left_out_sentence(block.left_out, picture))
        pieces.append(f"{SMALL}<i>{sentence}</i></div>")
    body = "".join(pieces + _rows(block.after, labels, rich))
    count = count_lines(block.rows) + block.left_out
    if len(labels) == 1 and len(picture.blocks) > 1 and count > _UNFOLDED_ROWS:
        (ranks,) = labels
        heading = f"{name_ranks(ranks)} · {count:,} lines"
        opened = " open" if is_open else ""
        return f"<details{opened}>{_SUMMARY}{heading}</summary>{body}</details>"
    heading = full_label(block)
    shown = f"{SMALL}{heading}:</div>{body}" if heading else body
    # Figures of one group of ranks stand beside those of the next, unless lines come between.
    is_figure = len(picture.blocks) > 1 and all(row.entry.rich for row in block.rows)
    return rich.place(shown) if is_figure else shown


def _rows(rows: Sequence[Row], labels: Mapping[tuple[int, ...], str], rich: RichHtml) -> list[str]:
    """Write runs of lines as one `<pre>` each, with the rich outputs between them."""
    pieces: list[str] = []
    for shown, run in groupby(rows, lambda row: row.entry.rich):
        if shown is None:
            lines = "".join(_row_html(row, labels[row.ranks]) for row in run)
            pieces.append(f"{PRE}{lines}</pre>")
            continue
        for row in run:
            label = labels[row.ranks].strip()
            head = f'{SMALL}<span style="font-family:monospace">{label}</span></div>'
            pieces.append(rich.write(head, shown))
    return pieces


def _row_html(row: Row, prefix: str) -> str:
    style = _ROW_STYLES.get(row.entry.kind)
    pieces = []
    for line in row.entry.content.split("\n"):
        content = ansi_to_html(line)
        if style:
            content = f'<span style="{style}">{content}</span>'
        pieces.append(f'<span style="opacity:0.7">{prefix}</span>{content}\n')
    return "".join(pieces)


def _values(values: Sequence[ValueGroup], rich: RichHtml) -> list[str]:
    if all(group.value.is_text for group in values):
        lines = value_lines(values)
        return [f"{PRE}{ansi_to_html(chr(10).join(lines))}</pre>"] if lines else []
    pieces = []
    for group in values:
        if group.value.is_text:
            pieces.append(f"{PRE}{ansi_to_html(chr(10).join(value_lines([group])))}</pre>")
            continue
        head = f"Out{label_ranks(group.ranks)}:"
        pieces.append(rich.write(f"{PRE}{head}</pre>", group.value))
    return pieces


def _error(picture: CellPicture, index: int) -> str:
    group = picture.errors[index]
    heading = f"<b>{html.escape(strip_ansi(heading_text(group)), quote=False)}</b>"
    others = [html.escape(strip_ansi(text), quote=False) for text in other_messages(group)]
    body = f"{PRE}{chr(10).join(others)}</pre>" if others else ""
    # A page of many different tracebacks is no page; the first eight are kept.
    if index < _OPEN_GROUPS and picture.raised_rank not in group.ranks and group.traceback:
        cap = TRACEBACK_CAP if index == 0 else TRACEBACK_CAP // 4
        body += f"{PRE}{ansi_to_html(cap_text(group.traceback, cap))}</pre>"
    shown = f"{heading}{body}"
    is_open = index == 0 and picture.raised_rank is None and not picture.crashes
    if body and not is_open:
        shown = f"<details><summary>{heading}</summary>{body}</details>"
    colour = _STATE_COLOURS.get(group.status, _OTHER_STATE_COLOUR)
    frame = f"margin-top:4px;padding-left:6px;border-left:3px solid {colour}"
    return f'<div style="{frame}">{shown}</div>'


def _strip(states: Mapping[str, tuple[int, ...]]) -> str:
    """Draw small boxes for the ranks, coloured by their state, in at most eight lines of 64."""
    if not states:
        return ""
    state_of = {rank: state for state, ranks in states.items() for rank in ranks}
    ranks = sorted(state_of)
    width = len(str(ranks[-1]))
    each = -(-len(ranks) // _MOST_BOXES)
    lines = []
    for start in range(0, len(ranks), each * _STRIP_WIDTH):
        line = ranks[start : start + each * _STRIP_WIDTH]
        boxes = [line[first : first + each] for first in range(0, len(line), each)]
        lines.append(f"{line[0]:>{width}} {_boxes(boxes, state_of)}")
    counts = [f"{len(of)} {state.replace('_', ' ')}" for state, of in states.items()]
    if each > 1:
        counts.append(f"■: the worst of {each} ranks")
    text = "\n".join([*lines, " · ".join(counts)])
    return f'<pre style="margin:0;padding:0;line-height:1.1">{text}</pre>'


def _boxes(boxes: Sequence[Sequence[int]], state_of: Mapping[int, str]) -> str:
    def worst(ranks: Sequence[int]) -> str:
        found = {state_of[rank] for rank in ranks}
        return min(sorted(found), key=lambda state: _WORST_FIRST.get(state, _OTHER_BADNESS))

    pieces = []
    for state, run in groupby(boxes, worst):
        alike = list(run)
        ranks = [rank for box in alike for rank in box if state_of[rank] == state]
        colour = _STATE_COLOURS.get(state, _OTHER_STATE_COLOUR)
        title = f"{format_ranks(ranks)}: {state}"
        pieces.append(f'<span style="color:{colour}" title="{title}">{"■" * len(alike)}</span>')
    return "".join(pieces)
