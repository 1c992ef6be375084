"""A benchmark of collectives, as text for terminals and as static HTML for notebooks."""

import html
from collections.abc import Sequence

from jupyter_dist.model.bench.measurements import BenchPoint, BenchReport, bandwidth_text, time_text
from jupyter_dist.model.hosts.host_names import name_hosts
from jupyter_dist.text.columns import align
from jupyter_dist.text.plurals import count_of
from jupyter_dist.text.sizes import tell_size
from jupyter_dist.views.outputs.ansi import readable, strip_ansi
from jupyter_dist.views.tables.bench_plot import colour_of, plot_html
from jupyter_dist.views.tables.bench_verdict import judge
from jupyter_dist.views.tables.table import (
    BAD,
    MARKS,
    cell_html,
    head_html,
    judged_html,
    page_html,
    plain,
    row_html,
    small_html,
    table_html,
    wrap,
)

BAR_WIDTH = 20
_BAR_PX = 56
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_COLUMNS = ("size", "time", "algbw", "busbw", "", "wrong")
_BAR = 4
_NOT_CHECKED = "-"
_CELL = "text-align:right;padding:1px 0 1px 10px"


def bench_text(report: BenchReport) -> str:
    """Write a table for each operation, the verdicts and what was measured with what."""
    parts = [_heading(report)]
    for op in report.ops:
        points = report.of(op)
        rows = [_COLUMNS, *(_row(point, _text_bar(point, points)) for point in points)]
        lines = align(rows, right=range(len(_COLUMNS)))
        parts.append("\n".join([op, *(f"  {line}" for line in lines)]))
    verdicts = (f"{MARKS[verdict.level]} {verdict.text}" for verdict in judge(report))
    parts.append("\n".join(line for verdict in verdicts for line in wrap(verdict, "  ")))
    parts.append(_versions(report))
    return strip_ansi("\n\n".join(filter(None, parts))) + "\n"


def bench_html(report: BenchReport) -> str:
    """Write the same as one `<div>` with inline styles only, and a plot of busbw over size."""
    tables = "".join(_table_html(op, report.of(op)) for op in report.ops)
    pieces = [
        small_html(_heading(report)),
        f'<div style="display:flex;flex-wrap:wrap;gap:10px 26px;margin:6px 0">{tables}</div>',
        plot_html(report),
        *(judged_html(verdict.level, plain(verdict.text)) for verdict in judge(report)),
        small_html(_versions(report)),
    ]
    return strip_ansi(page_html(pieces))


# --- what stands in it ---


def _heading(report: BenchReport) -> str:
    ranks = count_of(report.world_size, "rank")
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
        tell_size(point.nbytes),
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


# --- as HTML ---


def _table_html(op: str, points: Sequence[BenchPoint]) -> str:
    mark = f'<b style="color:{colour_of(op)}">■</b>'
    head = row_html(head_html(name, _CELL) for name in _COLUMNS)
    table = table_html([head, *(_row_html(point, points) for point in points)], "margin:0")
    title = f"<div>{mark} <b>{html.escape(op)}</b></div>"
    return f"<div>{title}{table}</div>"


def _row_html(point: BenchPoint, points: Sequence[BenchPoint]) -> str:
    cells = []
    for index, text in enumerate(_row(point, "")):
        is_bad = index == len(_COLUMNS) - 1 and bool(point.wrong)
        style = f"font-weight:bold;color:{readable(BAD)}" if is_bad else ""
        markup = _bar_html(point, points) if index == _BAR else html.escape(text)
        cells.append(cell_html(markup, f"{_CELL};{style}"))
    return row_html(cells)


def _bar_html(point: BenchPoint, points: Sequence[BenchPoint]) -> str:
    if point.busbw is None:
        return ""
    width = round(_BAR_PX * _share(point, points))
    track = f"width:{_BAR_PX}px;height:8px;background-color:rgba(128,128,128,0.18)"
    fill = f"width:{width}px;height:8px;background-color:{colour_of(point.op)}"
    return f'<div style="{track}"><div style="{fill}"></div></div>'
