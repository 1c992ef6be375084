import re
import sys

import pytest
from fakes.bench_report import report_of
from matplotlib.axes import Axes

from jupyter_dist.model.bench.bandwidth import RankPath
from jupyter_dist.model.bench.measurements import OPS
from jupyter_dist.views.tables.bench_plot import colour_of, plot_html

POINTS = (("reduce", 8, 8e-6, 0), ("reduce", 1 << 20, 1e-3, 0), ("gather", 8, 1e-4, 0))
ETHERNET = (RankPath("a", "eth0", 8000), RankPath("b", "eth0", 8000))


@pytest.fixture
def drawn(monkeypatch):
    """Take down what is drawn, by its label: the lines, and the dashed ones."""
    lines, promised = {}, {}
    plot, axhline = Axes.plot, Axes.axhline

    def note_line(axes, sizes, speeds, *style, label, **look):
        lines[label] = (sizes, speeds, look["color"])
        return plot(axes, sizes, speeds, *style, label=label, **look)

    def note_promise(axes, speed, *, label, **look):
        promised[label] = speed
        return axhline(axes, speed, label=label, **look)

    monkeypatch.setattr(Axes, "plot", note_line)
    monkeypatch.setattr(Axes, "axhline", note_promise)
    return lines, promised


def test_each_operation_is_a_line_in_its_own_colour(drawn):
    lines, promised = drawn
    plot_html(report_of(*POINTS))
    assert list(lines) == ["reduce", "gather"]
    assert lines["reduce"] == ([8, 1 << 20], pytest.approx([0.001, 1.05], rel=0.01), "#8a70d6")
    assert len({colour_of(op) for op in OPS}) == len(OPS)
    assert promised == {}


def test_what_the_links_promise_is_a_line_of_its_own(drawn):
    _, promised = drawn
    plot_html(report_of(*POINTS, paths=ETHERNET))
    assert promised == {"eth0, 8 Gbit/s: 1.00": 1.0}


def test_one_rank_is_drawn_by_algbw(drawn):
    lines, promised = drawn
    markup = plot_html(report_of(*POINTS, world_size=1, paths=ETHERNET[:1]))
    assert lines["reduce"][1] == pytest.approx([0.001, 1.05], rel=0.01)
    assert "algbw" in markup
    assert promised == {}


@pytest.mark.parametrize(
    "points",
    [
        POINTS,
        [("reduce", 1, 1000.0, 0), ("gather", 8 << 30, 1e-3, 0)],
        [("reduce", 1, 1000.0, 0)],
        [(op, 8, 1e-4, 0) for op in OPS],
    ],
)
def test_the_picture_is_part_of_the_page_and_described_in_words(points):
    markup = plot_html(report_of(*points, paths=ETHERNET))
    source, alt = re.fullmatch(
        r'<img src="([^"]+)" width="\d+" height="\d+" alt="(.+)"/>', markup
    ).groups()
    assert source.startswith("data:image/png;base64,")
    assert {op for op in OPS if op in alt} == {op for op, *_ in points}


def test_nothing_measured_is_no_plot():
    assert plot_html(report_of()) == ""


def test_without_matplotlib_there_is_a_note_in_its_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "install matplotlib" in plot_html(report_of(*POINTS))


def test_a_plot_that_cannot_be_drawn_says_why(monkeypatch):
    monkeypatch.setattr(Axes, "grid", None)
    assert "TypeError" in plot_html(report_of(*POINTS))
