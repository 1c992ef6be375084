from contextlib import suppress

import pytest

from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.stages.stage_view import StageView


def heal(view, clock):
    with view:
        for stage in ("rank 2 ends", "forming <generation> 2"):
            view.on_stage(stage)
            clock.now_s += 0.4


TIMES = "rank 2 ends (0.4 s) · forming <generation> 2 (0.4 s)"


def test_a_notebook_shows_the_present_stage_and_leaves_one_line_with_all_times(notebook, clock):
    heal(StageView(display=notebook, clock=clock), clock)
    assert [bundle["text/plain"] for bundle in notebook.bundles] == [
        "rank 2 ends …",
        "rank 2 ends (0.4 s) · forming <generation> 2 …",
        TIMES,
    ]
    assert "forming &lt;generation&gt; 2" in notebook.bundles[-1]["text/html"]


def test_a_terminal_has_the_stage_in_its_status_line_and_the_times_at_the_end(clock):
    written = []
    heal(StageView(display=Terminal(written.append, is_tty=True), clock=clock), clock)
    assert written[0] == "rank 2 ends …"
    assert written[-1] == f"{TIMES}\n"


def test_a_file_has_a_line_for_each_stage_when_it_begins(clock):
    written = []
    heal(StageView(display=Terminal(written.append, is_tty=False), clock=clock), clock)
    assert written == ["rank 2 ends\n", "forming <generation> 2\n"]


@pytest.mark.parametrize("is_tty", [True, False])
def test_what_was_over_at_once_leaves_nothing(is_tty):
    written = []
    with StageView(display=Terminal(written.append, is_tty=is_tty)):
        pass
    assert written == []


def test_when_it_fails_the_stages_stay_to_be_seen(notebook, clock):
    with suppress(RuntimeError), StageView(display=notebook, clock=clock) as view:
        view.on_stage("forming generation 2")
        clock.now_s += 30
        raise RuntimeError
    assert notebook.bundles[-1]["text/plain"] == "forming generation 2 (30.0 s)"
