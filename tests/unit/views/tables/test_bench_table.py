import sys

import pytest
from fakes.bench_report import report_of
from fakes.notebook import Page

from jupyter_dist.views.tables.bench_table import BAR_WIDTH, bench_html, bench_text
from jupyter_dist.views.tables.bench_verdict import judge

POINTS = (
    ("all_reduce", 8, 1e-4, 0),
    ("all_reduce", 1 << 20, 1e-3, 0),
    ("all_reduce", 64 << 20, 32e-3, 0),
)


@pytest.fixture(autouse=True)
def no_plot(monkeypatch):
    """Leave out what takes longest to draw."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_each_operation_has_a_table_and_the_fastest_size_the_longest_bar():
    lines = bench_text(report_of(*POINTS)).splitlines()
    assert lines[0].startswith("2 ranks on a · ring · float32 · ")
    assert lines[2:7] == [
        "all_reduce",
        f"    size    time  algbw  busbw  {'':{BAR_WIDTH}}  wrong",
        f"     8 B  100 µs   0.00   0.00  {'':{BAR_WIDTH}}      0",
        f"   1 MiB    1 ms   1.05   1.05  {'█' * 10:{BAR_WIDTH}}      0",
        f"  64 MiB   32 ms   2.10   2.10  {'█' * BAR_WIDTH}      0",
    ]


def test_the_bar_is_exact_to_an_eighth_of_a_block():
    report = report_of(("reduce", 1000, 1e-6, 0), ("reduce", 1000, 160e-6, 0))
    assert f"{'▏':{BAR_WIDTH}}" in bench_text(report).splitlines()[5]


def test_verdicts_stand_below_the_tables_and_versions_last():
    report = report_of(*POINTS, ("reduce", 8, 1e-4, 2))
    bad, *others = judge(report)
    verdicts = "\n".join([f"✗ {bad.text}", *(f"· {verdict.text}" for verdict in others)])
    assert bench_text(report).endswith(f"\n\n{verdicts}\n\npython 3.11.7, numpy 2.4.6\n")


def test_long_verdicts_are_wrapped():
    points = [(op, 8, 1e-4, 0) for op in ("all_reduce", "reduce", "gather", "scatter", "broadcast")]
    lines = bench_text(report_of(*points)).splitlines()
    assert max(map(len, lines)) <= 96
    assert any(line.startswith("  ") and "broadcast" in line for line in lines)


def test_one_rank_has_no_busbw_and_no_bar():
    report = report_of(*POINTS, world_size=1)
    assert bench_text(report).startswith("1 rank on a ·")
    assert "█" not in bench_text(report)
    assert [row[3] for row in Page(bench_html(report)).rows] == ["busbw", "n/a", "n/a", "n/a"]


def test_what_was_not_checked_says_so():
    row = bench_text(report_of(("reduce", 8, 1e-4, None))).splitlines()[4]
    assert row.endswith(" -")


def test_a_notebook_gets_the_same_as_html_and_as_text():
    report = report_of(*POINTS, ("reduce", 8, 1e-4, 2))
    page = Page(bench_html(report))
    assert page.rows[:3] == [
        ["size", "time", "algbw", "busbw", "", "wrong"],
        ["8 B", "100 µs", "0.00", "0.00", "", "0"],
        ["1 MiB", "1 ms", "1.05", "1.05", "", "0"],
    ]
    assert page.rows[-1][-1] == "2"
    said = "".join(page.text)
    for line in bench_text(report).splitlines()[-8:]:
        assert line.partition(" ")[2] in said


def test_nothing_needs_a_script_or_a_style_sheet():
    page = Page(bench_html(report_of(*POINTS)))
    assert page.tags <= {"div", "b", "table", "tr", "th", "td"}
