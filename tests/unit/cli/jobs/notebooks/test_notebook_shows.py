"""What a notebook that runs as a job says."""

import json

import pytest
from msgspec.structs import replace

from jupyter_dist.cli.jobs.notebooks.notebook_shows import JsonShow, TextShow, head_of
from jupyter_dist.cluster.jobs.job_events import NoteTold, SpmdBegan, SpmdEnded
from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import Output, RankFinished, RankOutput

BEGAN = SpmdBegan("demo", (0, 1), None, OutputStyle())
SAID = RankOutput((0, 1), (Output("stdout", "step 1\n"),))
ENDS = (RankFinished(0, "ok", 0.1), RankFinished(1, "ok", 0.1))
PICTURE = {"data": {"text/plain": "the same again"}, "transient": {"display_id": "a"}}


def display(text, display_id=""):
    return {"data": {"text/plain": text}, "transient": {"display_id": display_id}}


@pytest.fixture
def text(capsys):
    """One cell after another for people; gives (stdout, stderr)."""
    show = TextShow()
    show.begin_cell(1, 2, "x")
    show.told = capsys.readouterr
    return show


def test_what_ranks_say_is_grouped_and_not_told_twice(text):
    for event in (BEGAN, SAID, NoteTold("rank 0 waits", is_passing=False)):
        text.take_event(event)
    text.take_message("display_data", PICTURE)
    for event in (*ENDS, SpmdEnded(0, "")):
        text.take_event(event)
    text.take_message("update_display_data", {"data": {}})
    text.end_cell("ok", 0.1)
    out, _ = text.told()
    assert out.count("step 1") == 1
    assert "[0-1] step 1" in out
    assert "rank 0 waits" in out
    assert "the same again" not in out


def test_the_notebook_itself_is_told_as_it_comes_and_what_is_replaced_at_the_end(text):
    text.take_message("stream", {"name": "stdout", "text": "a"})
    text.take_message("stream", {"name": "stderr", "text": "\x1b[31mb\x1b[0m"})
    text.take_message("display_data", display("50 %", "bar"))
    text.take_message("update_display_data", display("100 %", "bar"))
    text.take_message("execute_result", display("7"))
    assert text.told() == ("a7\n", "b")
    text.end_cell("ok", 0.1)
    text.end_cell("ok", 0.1)
    assert text.told() == ("100 %\n", "")


def test_a_widget_is_nothing_for_a_terminal(text):
    widget = {"data": {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "Widget()"}}
    text.take_message("display_data", widget)
    assert text.told() == ("", "")


def test_a_traceback_of_the_notebook_is_told_and_one_of_ranks_is_known(text):
    text.take_message("error", {"traceback": ["line 1", "ValueError"]})
    assert text.told() == ("", "line 1\nValueError\n")
    text.take_event(BEGAN)
    text.take_event(SpmdEnded(3, "rank 1: SystemExit: 3"))
    text.told()
    text.take_message("error", {"traceback": ["RankRaised"]})
    assert text.told() == ("", "")
    assert text.failure.exit_status == 3
    text.begin_cell(2, 2, "y")
    assert text.failure is None


def test_programs_are_told_events(capsys):
    lines = []
    show = JsonShow(lines.append)
    show.begin_cell(2, 3, "x")
    show.take_message("stream", {"name": "stdout", "text": "a"})
    show.take_message("display_data", display("7", "id"))
    for event in (BEGAN, SAID, *ENDS, SpmdEnded(0, "")):
        show.take_event(event)
    show.end_cell("failed", 0.5, "ValueError", "bad")
    events = [json.loads(line) for line in lines]
    assert [(each["event"], each.get("ranks", "")) for each in events] == [
        ("cell_began", ""),
        ("output", None),
        ("output", None),
        ("began", [0, 1]),
        ("output", [0, 1]),
        ("rank_ended", ""),
        ("rank_ended", ""),
        ("cell_ended", ""),
    ]
    assert events[-1] == {
        "event": "cell_ended",
        "cell": 2,
        "status": "failed",
        "seconds": 0.5,
        "error": "ValueError",
        "message": "bad",
    }


IN_BACKGROUND = replace(BEGAN, is_background=True)


def test_a_cell_beside_others_is_told_with_its_number_until_its_end(text):
    run = text.begin_background(IN_BACKGROUND)
    text.take_message("display_data", PICTURE)  # its events tell it
    text.end_cell("ok", 0.1)
    text.begin_cell(2, 2, "y")
    text.take_message("display_data", display("of cell 2"))
    for event in (SAID, *ENDS, SpmdEnded(3, "rank 1: SystemExit: 3"), SAID):
        text.tick()
        run.take_event(event)
    out, _ = text.told()
    assert out.splitlines() == ["of cell 2", "[cell 1] [0-1] step 1"]
    assert (run.cell, run.end.exit_status) == (1, 3)
    assert text.failure is None, "the cell that runs has not failed"


def test_programs_are_told_which_cell_goes_on(capsys):
    lines = []
    show = JsonShow(lines.append)
    show.begin_cell(2, 3, "x")
    run = show.begin_background(IN_BACKGROUND)
    show.begin_cell(3, 3, "y")
    run.take_event(SAID)
    last = json.loads(lines[-1])
    assert (last["event"], last["cell"], last["text"]) == ("output", 2, "step 1\n")


def test_an_event_without_a_beginning_is_passed_over(text):
    text.take_event(SAID)
    assert text.told() == ("", "")


@pytest.mark.parametrize(
    ("source", "head"), [("\n x = 1\ny", "x = 1"), ("%%spmd\n\nprint(1)\n2", "%%spmd · print(1)")]
)
def test_a_cell_is_named_by_its_first_line(source, head):
    assert head_of(source) == head
