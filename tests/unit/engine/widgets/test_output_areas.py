"""Output areas of ipywidgets on a rank, with the real package."""

from types import SimpleNamespace

import pytest

from jupyter_dist.engine.widgets.output_areas import OutputAreas
from jupyter_dist.protocol.messages import Output


class FakeOutputs:
    """Gives the innermost area what is said, as `Outputs` does."""

    def __init__(self):
        self.areas, self.own = [], []

    def enter_area(self, area):
        self.areas.append(area)

    def leave_area(self):
        return self.areas.pop()

    def say(self, *outputs):
        if self.areas and self.areas[-1] is not None:
            self.areas[-1].take(outputs)
        else:
            self.own += outputs


@pytest.fixture
def rank(shell, monkeypatch):
    module = pytest.importorskip("ipywidgets.widgets.widget_output")
    for name in ("__enter__", "__exit__"):
        monkeypatch.setattr(module.Output, name, getattr(module.Output, name))
    outputs = FakeOutputs()
    shell.display_pub.show = outputs.say
    comms = SimpleNamespace(are_shown=True, said=[])
    comms.say = lambda *message: comms.said.append(message)
    areas = OutputAreas(comms, outputs, shell)
    areas._teach(module)
    return SimpleNamespace(new=module.Output, outputs=outputs, comms=comms, shell=shell)


def text(value, name="stdout"):
    return {"output_type": "stream", "name": name, "text": value}


def test_what_is_said_within_is_in_the_area_and_not_the_ranks_own(rank):
    area = rank.new()
    rank.outputs.say(Output("stdout", "before\n"))
    with area:
        rank.outputs.say(Output("stdout", "a\n"), Output("stdout", "b\n"), Output("stderr", "c\n"))
        rank.outputs.say(Output("display", data={"text/plain": "d"}))
    rank.outputs.say(Output("stdout", "after\n"))
    shown = {"output_type": "display_data", "data": {"text/plain": "d"}, "metadata": {}}
    assert area.outputs == (text("a\nb\n"), text("c\n", "stderr"), shown)
    assert [each.text for each in rank.outputs.own] == ["before\n", "after\n"]


def test_a_page_sees_it_while_it_is_written(rank):
    with rank.new() as _:
        rank.outputs.say(Output("stdout", "step 1\n"))
        kind, content = rank.comms.said[0][1:3]
        assert kind == "msg"
        assert content["data"]["state"] == {"outputs": [text("step 1\n")]}


def test_an_area_goes_on_where_it_was_left_and_is_cleared(rank):
    area = rank.new()
    with area:
        rank.outputs.say(Output("stdout", "1\n"))
    with area:
        rank.outputs.say(Output("stdout", "2\n"))
    assert area.outputs == (text("1\n2\n"),)
    area.clear_output()
    assert area.outputs == ()


def test_a_display_within_is_updated_in_its_place(rank):
    area = rank.new()
    with area:
        rank.outputs.say(Output("display", data={"text/plain": "1"}, display_id="x"))
        rank.outputs.say(Output("update_display", data={"text/plain": "2"}, display_id="x"))
    assert [each["data"] for each in area.outputs] == [{"text/plain": "2"}]


@pytest.mark.parametrize("are_shown", [True, False])
def test_an_error_is_shown_there_and_is_over_as_in_a_notebook(rank, are_shown):
    rank.comms.are_shown = are_shown
    area = rank.new()
    with area:
        raise ValueError("within")
    said = str(area.outputs) if are_shown else rank.outputs.own[0].text
    assert "ValueError" in said
    assert "within" in said
    assert rank.shell.last_traceback == ()
    assert rank.outputs.areas == []


def test_where_no_page_shows_widgets_it_is_the_ranks_own_output(rank):
    rank.comms.are_shown = False
    area = rank.new()
    with area:
        rank.outputs.say(Output("stdout", "own\n"))
    assert area.outputs == ()
    assert [each.text for each in rank.outputs.own] == ["own\n"]
