"""A folded progress bar as HTML: inline styles only, and nothing but words to be copied."""

import html
from collections.abc import Sequence

from jupyter_dist.model.hosts.rank import format_ranks
from jupyter_dist.views.outputs.grouping import group_by, label_ranks
from jupyter_dist.views.progress.bar_text import bar_facts, shown_bars
from jupyter_dist.views.progress.folded_bars import FoldedBar

_WIDTH = 160
_STEPS = 40
"""Ranks closer to each other than this part of the bar share one mark."""
_MARKS = 10
_COARSE_STEPS = 16
"""The same where there would be more marks than that: each is sent with every redraw."""
_MOVING, _DONE, _STOPPED = "59,130,246", "46,150,68", "217,67,59"
_LINE = '<div style="font-family:monospace;font-size:93%;margin:1px 0">'
_TROUGH = (
    f'style="display:inline-block;width:{_WIDTH}px;height:10px;line-height:0;overflow:hidden;'
    'vertical-align:middle;background-color:rgba(128,128,128,0.25)"'
)
_TITLE_RANKS = 16


def bars_html(bars: Sequence[FoldedBar], *, has_times: bool = True) -> list[str]:
    """Draw all bars that are to be shown, one on a line."""
    shown, more = shown_bars(bars)
    drawn = (bar_html(bar, has_times=has_times) for bar in shown)
    return [*([f"{_LINE}<i>{more}</i></div>"] if more else []), *drawn]


def bar_html(folded: FoldedBar, *, has_times: bool = True) -> str:
    """Draw one bar with its words; the more ranks have passed a place, the darker it is there."""
    head = f"{html.escape(folded.description, quote=False)} " if folded.description else ""
    label = f'<span style="opacity:0.7">{label_ranks(folded.ranks)}</span>'
    facts = html.escape(bar_facts(folded, has_times=has_times), quote=False)
    return f"{_LINE}{head}{label} {_drawn(folded)}{facts}</div>"


def _drawn(folded: FoldedBar) -> str:
    shares = folded.shares
    if not shares:
        return ""
    percent = f"{100 * sum(shares) / len(shares):.0f}%"
    title = html.escape(_who_is_where(folded))
    segments = _segments(shares, _colour(folded))
    return f'<span title="{title}" {_TROUGH}>{segments}</span> {percent} '


def _segments(shares: Sequence[float], colour: str) -> str:
    """Draw from one mark to the next; a mark is a line where ranks are."""
    steps, scale = [round(share * _STEPS) for share in shares], _STEPS
    if len(set(steps)) > _MARKS:
        steps, scale = [round(share * _COARSE_STEPS) for share in shares], _COARSE_STEPS
    pieces = []
    begun = 0
    for step in sorted(set(steps)):
        width = (step - begun) * _WIDTH // scale
        if width > 0:
            passed = sum(each >= step for each in steps) / len(steps)
            mark = f"border-right:1px solid rgb({colour});" if step < scale else ""
            pieces.append(
                f'<span style="display:inline-block;box-sizing:border-box;height:10px;'
                f"width:{width}px;{mark}"
                f'background-color:rgba({colour},{0.25 + 0.65 * passed:.2f})"></span>'
            )
        begun = step
    return "".join(pieces)


def _colour(folded: FoldedBar) -> str:
    if folded.stopped:
        return _STOPPED
    return _DONE if folded.is_over else _MOVING


def _who_is_where(folded: FoldedBar) -> str:
    """Return where each rank is; of many ranks, those at the ends."""
    by_count = group_by(folded.bars, lambda rank: folded.bars[rank].n)
    told = [f"{format_ranks(ranks)}: {count:,}" for count, ranks in sorted(by_count.items())]
    if len(told) > _TITLE_RANKS:
        half = _TITLE_RANKS // 2
        told = [*told[:half], "…", *told[-half:]]
    return "\n".join(told)
