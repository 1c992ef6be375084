import sys

import msgspec
import pytest
from fakes.bench_report import report_of

from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.model.bench.measurements import PROGRESS_MIME, BenchProgress
from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.tables.bench_table import bench_html, bench_text
from jupyter_dist.views.tables.bench_view import BenchView

REPORT = report_of(("all_reduce", 8, 1e-4, 0))
RESULT = SpmdResult([RankResult(rank=0, status="ok")])


class Cell:
    """A view of the cell itself that remembers what it was told."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda *given: self.told.append((name, *given))


def progress(op, nbytes):
    data = {PROGRESS_MIME: msgspec.to_builtins(BenchProgress(op, nbytes)), "text/plain": "x"}
    return Output("display", data=data)


@pytest.fixture(autouse=True)
def no_plot(monkeypatch):
    """Leave out what takes longest to draw."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def cell():
    return Cell()


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def view(cell, notebook, now):
    return BenchView(cell, display=notebook, clock=lambda: now[0])


def test_one_line_says_what_is_measured_now(view, notebook, now):
    for op, nbytes in (("all_reduce", 8), ("all_reduce", 64), ("reduce", 1 << 20)):
        view.on_output([0], [progress(op, nbytes)])
        now[0] += 1
        view.on_tick()
        view.on_tick()
    assert notebook.texts == ["all_reduce 8 B …", "all_reduce 64 B …", "reduce 1 MiB …"]
    assert ">reduce 1 MiB …<" in notebook.bundles[-1]["text/html"]


def test_a_notebook_is_not_redrawn_more_often_than_it_can_be_read(view, notebook, now):
    for nbytes in range(1, 100):
        view.on_output([0], [progress("reduce", nbytes)])
        view.on_tick()
        now[0] += 0.01
    assert 3 <= len(notebook.bundles) <= 6


@pytest.mark.parametrize("was_seen", [True, False])
def test_tables_take_the_place_of_the_line(view, notebook, cell, was_seen):
    if was_seen:
        view.on_tick()
    view.finish(RESULT, REPORT)
    assert notebook.displays == 1
    tables = {"text/html": bench_html(REPORT), "text/plain": bench_text(REPORT)}
    assert notebook.bundles[was_seen:] == [tables]
    assert cell.told == [("finish", RESULT)]


def test_what_ranks_say_besides_is_shown_as_of_any_cell(view, cell):
    said = Output("stderr", "NCCL WARN\n")
    view.on_output([0], [progress("reduce", 8)])
    view.on_tick()
    assert cell.told == []
    view.on_output([1], [progress("reduce", 64), said])
    view.on_note("rank 1: silence")
    finished = RankFinished(1, "ok", 0.1)
    view.on_finished(finished)
    view.on_tick()
    assert cell.told == [
        ("on_output", [1], [said]),
        ("on_note", "rank 1: silence"),
        ("on_finished", finished),
        ("on_tick",),
    ]


def test_a_failure_is_shown_as_of_any_cell(view, notebook, cell):
    view.on_tick()
    view.fail(RESULT, 0)
    assert notebook.texts[-1] == "not measured"
    assert cell.told == [("finish", RESULT, 0)]


def test_a_terminal_shows_the_line_only_while_it_is_true(cell):
    written = []
    view = BenchView(cell, display=Terminal(written.append, is_tty=True))
    view.on_output([0], [progress("reduce", 8)])
    view.on_tick()
    assert "".join(written) == "reduce 8 B …"
    view.finish(RESULT, REPORT)
    assert "".join(written) == f"reduce 8 B …\r\x1b[K{bench_text(REPORT)}"


def test_without_a_tty_only_the_end_is_written(cell):
    written = []
    view = BenchView(cell, display=Terminal(written.append, is_tty=False))
    view.on_output([0], [progress("reduce", 8)])
    view.on_tick()
    view.fail(None)
    assert written == []
    assert cell.told == [("finish", None, None)]
