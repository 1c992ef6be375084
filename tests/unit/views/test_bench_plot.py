import re
from itertools import pairwise

import pytest
from fakes.bench_report import report_of

from jupyter_dist.model.bandwidth import RankPath
from jupyter_dist.model.bench import OPS
from jupyter_dist.views.bench_plot import colour_of, plot_html, spread

ETHERNET = (RankPath("a", "eth0", 8000), RankPath("b", "eth0", 8000))


def lines_in(markup):
    """The points of each line, as pairs of pixels."""
    found = re.findall(r'points="([^"]+)"', markup)
    return [[tuple(map(float, pair.split(","))) for pair in line.split()] for line in found]


def top_of(markup, text):
    """Where a text stands, in pixels from the top."""
    return float(re.search(rf"top:(-?[\d.]+)px[^<>]*>{re.escape(text)}<", markup)[1])


def test_each_operation_is_a_line_in_its_own_colour():
    report = report_of(("reduce", 8, 1e-4, 0), ("reduce", 64, 1e-4, 0), ("gather", 8, 1e-4, 0))
    markup = plot_html(report)
    assert [len(line) for line in lines_in(markup)] == [2, 1]
    assert f'stroke="{colour_of("reduce")}"' in markup
    assert f'stroke="{colour_of("gather")}"' in markup
    assert len({colour_of(op) for op in OPS}) == len(OPS)


def test_both_axes_are_logarithmic():
    points = [("reduce", 8**power, 1e-3 * 0.8**power, 0) for power in range(1, 6)]
    (line,) = lines_in(plot_html(report_of(*points)))
    steps = [(x2 - x1, y2 - y1) for (x1, y1), (x2, y2) in pairwise(line)]
    for right, up in steps:
        assert right == pytest.approx(steps[0][0], abs=0.2)
        assert up == pytest.approx(steps[0][1], abs=0.2)
    assert steps[0][0] > 0 > steps[0][1]


def test_ticks_are_where_the_points_of_that_size_and_speed_are():
    report = report_of(("reduce", 1000, 1e-6, 0), ("reduce", 1 << 20, 1e-3, 0))
    markup = plot_html(report)
    ((_, y), _) = lines_in(markup)[0]
    assert top_of(markup, "1") == pytest.approx(y - 7, abs=1)
    for text in ("busbw, GB/s", "1 KiB", "10"):
        assert f">{text}<" in markup


def test_what_the_links_promise_is_a_dashed_line():
    points = (("reduce", 1000, 1e-5, 0), ("reduce", 1 << 20, 3e-3, 0))
    promised = plot_html(report_of(*points, paths=ETHERNET))
    assert "dashed" in promised
    assert ">eth0, 8 Gbit/s: 1.00<" in promised
    assert "dashed" not in plot_html(report_of(*points))


def test_one_rank_is_drawn_by_algbw():
    markup = plot_html(report_of(("reduce", 8, 1e-4, 0), world_size=1, paths=ETHERNET[:1]))
    assert ">algbw, GB/s<" in markup
    assert "dashed" not in markup


def test_everything_stays_inside_whatever_was_measured():
    slow_and_fast = (("reduce", 1, 1000.0, 0), ("gather", 8 << 30, 1e-3, 0))
    for points in (slow_and_fast, slow_and_fast[:1], [(op, 8, 1e-4, 0) for op in OPS]):
        markup = plot_html(report_of(*points))
        width, height = map(int, re.search(r'width="(\d+)" height="(\d+)"', markup).groups())
        for x, y in (pair for line in lines_in(markup) for pair in line):
            assert 0 <= x <= width
            assert 0 <= y <= height
        places = re.findall(r"left:(-?[\d.]+)px;top:(-?[\d.]+)px", markup)
        assert all(0 <= float(x) < width and 0 <= float(y) < height for x, y in places)


def test_the_plot_is_described_in_words():
    markup = plot_html(report_of(("reduce", 8, 8e-6, 0), ("reduce", 1 << 20, 1e-3, 0)))
    assert 'role="img"' in markup
    alt = re.search(r'aria-label="([^"]+)"', markup)[1]
    assert alt == (
        "Plot of busbw in GB/s over size, both logarithmic; "
        "reduce goes from 0.001 at 8 B to 1 at 1 MiB."
    )


def test_nothing_measured_is_no_plot():
    assert plot_html(report_of()) == ""


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([], []),
        ([10.0, 50.0], [10.0, 50.0]),
        ([10.0, 12.0, 13.0], [10.0, 25.0, 40.0]),
        ([80.0, 95.0, 99.0], [70.0, 85.0, 100.0]),
    ],
)
def test_labels_are_kept_apart(wanted, places):
    assert spread(wanted, 15, 100) == places
