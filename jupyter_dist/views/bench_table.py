"""A benchmark of collectives, as text for terminals and as static HTML for notebooks."""

import html
import textwrap
from collections.abc import Sequence

from jupyter_dist.model.bench import (
    BenchPoint,
    BenchReport,
    bandwidth_text,
    size_text,
    time_text,
)
from jupyter_dist.model.bench_verdict import Verdict, VerdictLevel, judge
from jupyter_dist.model.host_names import name_hosts
from jupyter_dist.views.ansi import strip_ansi
from jupyter_dist.views.bench_plot import colour_of, plot_html

BAR_WIDTH = 20
_BAR_PX = 56
TEXT_WIDTH = 96
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_COLUMNS = ("size", "time", "algbw", "busbw", "", "wrong")
_BAR = 4
_UNIT = "algbw and busbw in GB/s"
_NOT_CHECKED = "-"
_MARKS: dict[VerdictLevel, str] = {"good": "✓", "warning": "!", "bad": "✗", "unknown": "·"}
# Mid tones that can be read on a white and on a black page.
_COLOURS: dict[VerdictLevel, str] = {
    "good": "rgb(46,150,68)",
    "warning": "rgb(176,133,0)",
    "bad": "rgb(217,67,59)",
    "unknown": "rgb(135,135,135)",
}
_CELL = "text-align:right;padding:1px 0 1px 10px;border:none;background:none;white-space:nowrap"
_TABLE = '<table style="border-collapse:collapse;border:none;margin:0;font-size:93%">'
_SMALL = '<div style="opacity:0.7;font-size:90%">'


def bench_text(report: BenchReport) -> str:
    """Write a table for each operation, the verdicts and what was measured with what."""
    parts = [_heading(report)]
    for op in report.ops:
        points = report.of(op)
        rows = [_COLUMNS, *(_row(point, _text_bar(point, points)) for point in points)]
        parts.append("\n".join([op, *_align(rows)]))
    parts.append("\n".join(line for each in judge(report) for line in _verdict_lines(each)))
    parts.append(_versions(report))
    return strip_ansi("\n\n".join(filter(None, parts))) + "\n"


def bench_bundle(report: BenchReport) -> dict[str, str]:
    """Give the MIME bundle for a notebook: static HTML and plain text."""
    return {"text/html": bench_html(report), "text/plain": bench_text(report)}


def bench_html(report: BenchReport) -> str:
    """Write the same as one `<div>` with inline styles only, and a plot of busbw over size."""
    tables = "".join(_table_html(op, report.of(op)) for op in report.ops)
    pieces = [
        f"{_SMALL}{html.escape(_heading(report))}</div>",
        f'<div style="display:flex;flex-wrap:wrap;gap:10px 26px;margin:6px 0">{tables}</div>',
        plot_html(report),
        *(_verdict_html(verdict) for verdict in judge(report)),
        f"{_SMALL}{html.escape(_versions(report))}</div>",
    ]
    return strip_ansi(f'<div style="padding-left:8px">{"".join(pieces)}</div>')


# --- what stands in it ---


def _heading(report: BenchReport) -> str:
    ranks = f"{report.world_size} rank{'s' if report.world_size != 1 else ''}"
    dtypes = {point.dtype for point in report.points}
    facts = [
        f"{ranks} on {name_hosts(report.hosts)}",
        report.kind,
        *sorted(dtypes),
        "algbw and busbw in GB/s",
    ]
    return " · ".join(facts)


def _versions(report: BenchReport) -> str:
    return ", ".join(f"{package} {version}" for package, version in report.versions.items())


def _row(point: BenchPoint, bar: str) -> tuple[str, ...]:
    return (
        size_text(point.nbytes),
        time_text(point.median_s),
        bandwidth_text(point.algbw),
        bandwidth_text(point.busbw),
        bar,
        _NOT_CHECKED if point.wrong is None else str(point.wrong),
    )


def _share(point: BenchPoint, points: Sequence[BenchPoint]) -> float:
    """Compare with the fastest point of the operation; 0 where there is no busbw."""
    fastest = max(each.busbw or 0.0 for each in points)
    return (point.busbw or 0.0) / fastest if fastest else 0.0


# --- as text ---


def _text_bar(point: BenchPoint, points: Sequence[BenchPoint]) -> str:
    whole, rest = divmod(round(_share(point, points) * BAR_WIDTH * 8), 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _verdict_lines(verdict: Verdict) -> list[str]:
    return textwrap.wrap(
        f"{_MARKS[verdict.level]} {verdict.text}",
        TEXT_WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# --- as HTML ---


def _table_html(op: str, points: Sequence[BenchPoint]) -> str:
    mark = f'<b style="color:{colour_of(op)}">■</b>'
    head = "".join(_cell(html.escape(name), "th") for name in _COLUMNS)
    body = "".join(_row_html(point, points) for point in points)
    title = f"<div>{mark} <b>{html.escape(op)}</b></div>"
    return f"<div>{title}{_TABLE}<tr>{head}</tr>{body}</table></div>"


def _row_html(point: BenchPoint, points: Sequence[BenchPoint]) -> str:
    cells = []
    for index, text in enumerate(_row(point, "")):
        is_bad = index == len(_COLUMNS) - 1 and bool(point.wrong)
        style = f"font-weight:bold;color:{_COLOURS['bad']}" if is_bad else ""
        markup = _bar_html(point, points) if index == _BAR else html.escape(text)
        cells.append(_cell(markup, "td", style))
    return f"<tr>{''.join(cells)}</tr>"


def _bar_html(point: BenchPoint, points: Sequence[BenchPoint]) -> str:
    if point.busbw is None:
        return ""
    width = round(_BAR_PX * _share(point, points))
    track = f"width:{_BAR_PX}px;height:8px;background-color:rgba(128,128,128,0.18)"
    fill = f"width:{width}px;height:8px;background-color:{colour_of(point.op)}"
    return f'<div style="{track}"><div style="{fill}"></div></div>'


def _cell(markup: str, tag: str, style: str = "") -> str:
    more = "font-weight:normal;opacity:0.7" if tag == "th" else style
    return f'<{tag} style="{_CELL};{more}">{markup}</{tag}>'


def _verdict_html(verdict: Verdict) -> str:
    colour = _COLOURS[verdict.level]
    mark = f'<b style="color:{colour}">{_MARKS[verdict.level]}</b>'
    frame = f"margin:0 0 4px 0;padding-left:6px;border-left:3px solid {colour}"
    return f'<div style="{frame}">{mark} {html.escape(verdict.text)}</div>'
