"""busbw over size, drawn by matplotlib where that is installed."""

import base64
import html
import io
from importlib.util import find_spec
from typing import Any

from jupyter_dist.model.bench.measurements import BenchPoint, BenchReport, bandwidth_text
from jupyter_dist.text.sizes import tell_size
from jupyter_dist.views.cell.undrawn import drawn_or_told, explain_undrawn
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.tables.table import small_html

_WIDTH, _HEIGHT = 640, 300
_DPI = 150
_CSS_DPI = 100
"""A picture has half as many pixels again as the page has there."""
_GREY = "#8f8f8f"
"""It can be read on a light and on a dark page, for the picture has no ground of its own."""
_LOOK: dict[Any, Any] = {
    "font.size": 8,
    "text.parse_math": False,
    "text.color": _GREY,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _GREY,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
}
# Okabe-Ito and two more; each is readable on a light and on a dark page.
_COLOURS = {
    "all_reduce": "#0a7fc4",
    "all_gather": "#009e73",
    "reduce_scatter": "#d55e00",
    "broadcast": "#cc79a7",
    "all_to_all": "#b08500",
    "send_recv": "#3a94cb",
    "reduce": "#8a70d6",
    "gather": "#7f9a2e",
    "scatter": _GREY,
}


def colour_of(op: str) -> str:
    """Return the colour in which an operation is drawn."""
    return _COLOURS.get(op, _GREY)


def plot_html(report: BenchReport) -> str:
    """Draw one line for each operation, both axes logarithmic; empty when nothing was measured."""
    if not report.points:
        return ""
    if find_spec("matplotlib") is None:
        return small_html("Install matplotlib for a plot of these figures: pip install matplotlib")
    return drawn_or_told(
        lambda: _picture_html(report),
        lambda problem: small_html(explain_undrawn("the plot", problem)),
    )


def _picture_html(report: BenchReport) -> str:
    source = f"data:image/png;base64,{base64.b64encode(_draw(report)).decode()}"
    alt = html.escape(_alt_text(report))
    return f'<img src="{source}" width="{_WIDTH}" height="{_HEIGHT}" alt="{alt}"/>'


def _draw(report: BenchReport) -> bytes:
    """Return the picture as PNG; pyplot, and what a person draws with it, know nothing of it."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_LOOK):
        figure = Figure(figsize=(_WIDTH / _CSS_DPI, _HEIGHT / _CSS_DPI), layout="constrained")
        axes = figure.subplots()
        for op in report.ops:
            points = report.of(op)
            speeds = [_speed(point) for point in points]
            sizes = [point.nbytes for point in points]
            axes.plot(sizes, speeds, ".-", color=colour_of(op), label=op)
        promised = report.promise.gb_per_s
        if promised and report.world_size > 1:
            label = strip_ansi(f"{report.promise.words}: {bandwidth_text(promised)}")
            axes.axhline(promised, color=_GREY, linestyle="--", label=label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda nbytes, _place: tell_size(round(nbytes)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_ylabel(f"{_speed_name(report)}, GB/s")
        axes.minorticks_off()
        axes.grid(alpha=0.25)
        figure.legend(loc="outside right upper", frameon=False)
        png = io.BytesIO()
        figure.savefig(png, dpi=_DPI, transparent=True)
    return png.getvalue()


def _speed(point: BenchPoint) -> float:
    return point.algbw if point.busbw is None else point.busbw


def _speed_name(report: BenchReport) -> str:
    return "busbw" if report.world_size > 1 else "algbw"


def _alt_text(report: BenchReport) -> str:
    told = [f"Plot of {_speed_name(report)} in GB/s over size, both logarithmic"]
    for op in report.ops:
        first, last = report.of(op)[0], report.of(op)[-1]
        told.append(
            f"{op} goes from {_speed(first):.2g} at {tell_size(first.nbytes)} "
            f"to {_speed(last):.2g} at {tell_size(last.nbytes)}"
        )
    return f"{'; '.join(told)}."
