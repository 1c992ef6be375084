import json
import sys

import pytest
from fakes.notebook import Clock
from IPython.core.displaypub import CapturingDisplayPublisher

from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import ErrorInfo, Output, RankFinished
from jupyter_dist.views.cell.cell_output import CellOutputView, choose_view
from jupyter_dist.views.cell.shown_once import (
    ShownOnce,
    is_capturing,
    once_captured,
    once_in_notebook,
    once_on_terminal,
)
from jupyter_dist.views.cell.terminal import Terminal

FINAL = OutputStyle(is_final=True)
FIGURE = Output("display", data={"image/svg+xml": "<svg></svg>", "text/plain": "a figure"})


class Page:
    """IPython's `display`, for what cannot be replaced."""

    def __init__(self):
        self.bundles = []

    def __call__(self, bundle, /, *, raw, display_id):
        assert raw
        assert not display_id
        self.bundles.append(bundle)


def run_cell(screen, *outputs, status="ok"):
    """Let two ranks say this, with a redraw after each."""
    view = CellOutputView(world_size=2, display=screen, style=FINAL, clock=Clock())
    for rank in range(2):
        for output in outputs:
            view.on_output([rank], [output])
            view.on_note("a moment")
            view.on_tick()
        error = None if status == "ok" else ErrorInfo("ValueError", "bad", ())
        view.on_finished(RankFinished(rank, status, 0.1, error=error))
    view.on_note("")
    view.finish(None)
    view.show_again()


def test_a_notebook_gets_one_output_with_its_text_first():
    page = Page()
    run_cell(once_in_notebook(page), Output("stdout", "hello\n"), FIGURE)
    [bundle] = page.bundles
    assert list(bundle) == ["text/plain", "text/html"]
    assert bundle["text/plain"].startswith("[0-1] hello\n[0-1] a figure\n")


def test_what_no_notebook_can_be_saved_with_is_replaced():
    page = Page()
    run_cell(once_in_notebook(page), Output("display", data={"text/html": "half \ud800"}))
    json.dumps(page.bundles, ensure_ascii=False).encode()


def test_an_empty_cell_shows_nothing():
    page = Page()
    view = CellOutputView(world_size=1, display=once_in_notebook(page))
    view.on_finished(RankFinished(0, "ok", 0.1))
    view.finish(None)
    assert page.bundles == []


def test_a_terminal_gets_the_text_at_the_end():
    written = []
    run_cell(once_on_terminal(Terminal(written.append, is_tty=False)), Output("stdout", "hello\n"))
    assert len(written) == 1
    assert written[0].startswith("[0-1] hello\n")


def test_what_is_captured_is_in_the_streams_and_the_rest_is_displayed(capsys):
    page = Page()
    said = Output("stdout", "hello\n"), FIGURE, Output("stderr", "careful\n")
    run_cell(once_captured(page), *said, status="raised")
    printed = capsys.readouterr()
    assert printed.out == "[0-1] hello\n"
    assert printed.err == "[0-1] careful\n"
    [bundle] = page.bundles
    assert "hello" not in bundle["text/plain"] + bundle["text/html"]
    assert "a figure" in bundle["text/plain"]
    assert "ValueError" in bundle["text/html"]


def test_lines_alone_leave_nothing_to_display(capsys):
    page = Page()
    view = CellOutputView(world_size=1, display=once_captured(page))
    view.on_output([0], [Output("stdout", "hello\n")])
    view.on_finished(RankFinished(0, "ok", 0.1))
    view.finish(None)
    assert (page.bundles, capsys.readouterr().out) == ([], "[0] hello\n")


@pytest.mark.parametrize("style", [None, FINAL])
def test_a_shell_that_captures_is_known(style):
    class Shell:
        kernel = object()
        display_pub = CapturingDisplayPublisher()

    assert is_capturing(Shell())
    assert not is_capturing(sys)
    assert isinstance(choose_view(Shell(), world_size=2, style=style)._screen, ShownOnce)


@pytest.mark.parametrize("shell", [object(), type("Shell", (), {"kernel": object()})()])
def test_a_cell_is_shown_once_where_that_is_the_style(shell):
    assert isinstance(choose_view(shell, world_size=2, style=FINAL)._screen, ShownOnce)
