"""busbw over size as a drawing that needs no script, in the colours of the page.

JupyterLab takes `<svg>` out of notebooks that it does not trust, and leaves the text that stood in
it. So axes, labels and points are elements of the page, placed with inline style; only the lines
between the points are SVG, and the drawing can be read without them.
"""

import html
import math
from collections.abc import Sequence

import msgspec

from jupyter_dist.model.bench import (
    BenchPoint,
    BenchReport,
    bandwidth_text,
    size_text,
)

_WIDTH, _HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 530, 26, 272
_MOST_SIZES = 8
_LABEL_GAP = 15
_DOT = 7
# Okabe-Ito and two more; each is readable on a light and on a dark page.
_COLOURS = {
    "all_reduce": "#0a7fc4",
    "all_gather": "#009e73",
    "reduce_scatter": "#d55e00",
    "broadcast": "#cc79a7",
    "all_to_all": "#b08500",
    "send_recv": "#56b4e9",
    "reduce": "#8a70d6",
    "gather": "#7f9a2e",
    "scatter": "#8f8f8f",
}
_GRID = "1px solid rgba(128,128,128,0.25)"
_PLACE = "position:absolute;white-space:nowrap;font-size:11px;line-height:14px"


def colour_of(op: str) -> str:
    """Give the colour in which an operation is drawn."""
    return _COLOURS.get(op, "#8f8f8f")


def plot_html(report: BenchReport) -> str:
    """Draw one line for each operation, both axes logarithmic; empty when nothing was measured."""
    if not report.points:
        return ""
    frame = _Frame.around(report)
    pieces = [*_x_axis(frame), *_y_axis(frame, report), *_promise_line(frame, report)]
    pieces.append(_lines(frame, report))
    for op in report.ops:
        pieces += [_dot(frame, point) for point in report.of(op)]
    pieces += _labels(frame, report)
    style = f"position:relative;width:{_WIDTH}px;height:{_HEIGHT}px;margin:4px 0"
    alt = html.escape(_alt_text(report))
    return f'<div role="img" aria-label="{alt}" style="{style}">{"".join(pieces)}</div>'


class _Frame(msgspec.Struct, frozen=True):
    """What part of the world is drawn: sizes in powers of 2, speeds in powers of 10."""

    first_size: float
    last_size: float
    lowest: int
    highest: int

    @classmethod
    def around(cls, report: BenchReport) -> "_Frame":
        """Make room for every point, and for what the links promise."""
        exponents = [math.log2(point.nbytes) for point in report.points]
        speeds = [math.log10(_speed(point)) for point in report.points]
        if report.promise.gb_per_s and report.world_size > 1:
            speeds.append(math.log10(report.promise.gb_per_s))
        lowest, highest = math.floor(min(speeds)), math.ceil(max(speeds))
        first, last = min(exponents), max(exponents)
        return cls(first, max(last, first + 1), lowest, max(highest, lowest + 1))

    def x(self, nbytes: float) -> float:
        """Pixels from the left."""
        share = (math.log2(nbytes) - self.first_size) / (self.last_size - self.first_size)
        return _LEFT + 10 + share * (_RIGHT - _LEFT - 20)

    def y(self, speed: float) -> float:
        """Pixels from the top."""
        share = (math.log10(speed) - self.lowest) / (self.highest - self.lowest)
        return _BOTTOM - share * (_BOTTOM - _TOP)


def _speed(point: BenchPoint) -> float:
    return point.algbw if point.busbw is None else point.busbw


def _speed_name(report: BenchReport) -> str:
    return "busbw" if report.world_size > 1 else "algbw"


def _alt_text(report: BenchReport) -> str:
    told = [f"Plot of {_speed_name(report)} in GB/s over size, both logarithmic"]
    for op in report.ops:
        first, last = report.of(op)[0], report.of(op)[-1]
        told.append(
            f"{op} goes from {_speed(first):.2g} at {size_text(first.nbytes)} "
            f"to {_speed(last):.2g} at {size_text(last.nbytes)}"
        )
    return f"{'; '.join(told)}."


def _x_axis(frame: _Frame) -> list[str]:
    first, last = math.ceil(frame.first_size - 0.01), math.floor(frame.last_size + 0.01)
    step = max(1, math.ceil((last - first + 1) / _MOST_SIZES))
    pieces = []
    for exponent in range(first, last + 1, step):
        x = frame.x(2.0**exponent)
        pieces.append(_vertical(x))
        text = size_text(1 << exponent)
        pieces.append(_text(text, f"left:{x - 40:.0f}px;top:{_BOTTOM + 4}px;width:80px", "center"))
    return pieces


def _y_axis(frame: _Frame, report: BenchReport) -> list[str]:
    pieces = [_text(f"{_speed_name(report)}, GB/s", "left:0px;top:2px", "left")]
    for exponent in range(frame.lowest, frame.highest + 1):
        y = frame.y(10.0**exponent)
        pieces.append(_horizontal(y, _GRID))
        text = f"{10.0**exponent:.{max(0, -exponent)}f}"
        pieces.append(_text(text, f"left:0px;top:{y - 7:.0f}px;width:{_LEFT - 8}px", "right"))
    return pieces


def _promise_line(frame: _Frame, report: BenchReport) -> list[str]:
    promised = report.promise.gb_per_s
    if not promised or report.world_size < 2:
        return []
    y = frame.y(promised)
    text = f"{report.promise.words}: {bandwidth_text(promised)}"
    return [
        _horizontal(y, "1px dashed rgba(128,128,128,0.9)"),
        _text(text, f"left:{_LEFT + 6}px;top:{y - 15:.0f}px", "left"),
    ]


def _lines(frame: _Frame, report: BenchReport) -> str:
    lines = []
    for op in report.ops:
        places = (f"{frame.x(p.nbytes):.1f},{frame.y(_speed(p)):.1f}" for p in report.of(op))
        lines.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour_of(op)}" '
            'stroke-width="1.5"></polyline>'
        )
    style = "position:absolute;left:0px;top:0px"
    size = f'width="{_WIDTH}" height="{_HEIGHT}"'
    return f'<svg aria-hidden="true" {size} style="{style}">{"".join(lines)}</svg>'


def _dot(frame: _Frame, point: BenchPoint) -> str:
    left, top = frame.x(point.nbytes) - _DOT / 2, frame.y(_speed(point)) - _DOT / 2
    return (
        f'<div style="position:absolute;left:{left:.1f}px;top:{top:.1f}px;width:{_DOT}px;'
        f'height:{_DOT}px;border-radius:50%;background-color:{colour_of(point.op)}"></div>'
    )


def _labels(frame: _Frame, report: BenchReport) -> list[str]:
    """Name each line at its right end, apart from each other."""
    ends = sorted((frame.y(_speed(report.of(op)[-1])) - 7, op) for op in report.ops)
    tops = spread([top for top, _ in ends], _LABEL_GAP, _HEIGHT - _LABEL_GAP)
    pieces = []
    for top, (_, op) in zip(tops, ends, strict=True):
        mark = f'<b style="color:{colour_of(op)}">■</b>'
        place = f"left:{_RIGHT + 4}px;top:{top:.0f}px"
        pieces.append(f'<div style="{_PLACE};{place}">{mark} {html.escape(op)}</div>')
    return pieces


def spread(wanted: Sequence[float], gap: float, lowest: float) -> list[float]:
    """Move ascending places apart until none is nearer to the next than `gap`, nor too low."""
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + gap) if places else place)
    limit = lowest
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], limit)
        limit = places[index] - gap
    return places


def _vertical(x: float) -> str:
    place = f"left:{x:.1f}px;top:{_TOP}px;width:0px;height:{_BOTTOM - _TOP}px"
    return f'<div style="position:absolute;{place};border-left:{_GRID}"></div>'


def _horizontal(y: float, border: str) -> str:
    place = f"left:{_LEFT}px;top:{y:.1f}px;width:{_RIGHT - _LEFT}px;height:0px"
    return f'<div style="position:absolute;{place};border-top:{border}"></div>'


def _text(text: str, place: str, align: str) -> str:
    style = f"{_PLACE};{place};text-align:{align};opacity:0.75"
    return f'<div style="{style}">{html.escape(text)}</div>'
