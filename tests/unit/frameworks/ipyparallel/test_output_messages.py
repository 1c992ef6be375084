"""What clients of ipyparallel get of a task's output."""

import pytest

from jupyter_dist.frameworks.ipyparallel.output_messages import as_messages
from jupyter_dist.protocol.messages import Output

BUNDLE = {"text/plain": "1"}


@pytest.mark.parametrize(
    ("output", "kind", "content"),
    [
        (Output("stdout", "a\n"), "stream", {"name": "stdout", "text": "a\n"}),
        (Output("note", "a sentence"), "stream", {"name": "stderr", "text": "a sentence\n"}),
        (
            Output("value", data=BUNDLE),
            "execute_result",
            {"data": BUNDLE, "metadata": {}, "execution_count": 7},
        ),
        (
            Output("display", data=BUNDLE, metadata={"a": 1}),
            "display_data",
            {"data": BUNDLE, "metadata": {"a": 1}, "transient": {}},
        ),
        (
            Output("update_display", data=BUNDLE, display_id="x"),
            "update_display_data",
            {"data": BUNDLE, "metadata": {}, "transient": {"display_id": "x"}},
        ),
        (Output("clear_output"), "clear_output", {"wait": False}),
    ],
)
def test_each_kind_of_output_has_its_message(output, kind, content):
    assert list(as_messages([output], 7)) == [(kind, content)]


def test_a_bar_is_drawn_in_place_until_it_is_closed():
    state = {"n": 2, "total": 4, "unit": "step", "description": "train", "elapsed_s": 1.4}
    running, closed = Output("progress", data=state), {**state, "n": 4, "is_closed": True}
    drawn = [
        content["text"] for _, content in as_messages([running, Output("progress", data=closed)], 1)
    ]
    assert drawn == ["\rtrain: 50% 2/4 step [1 s]", "\rtrain: 100% 4/4 step [1 s]\n"]


def test_a_bar_without_an_end_shows_how_far_it_is():
    [(_, content)] = as_messages([Output("progress", data={"n": 3, "total": None})], 1)
    assert content["text"] == "\r3 it [0 s]"


def test_what_clients_cannot_show_is_left_out():
    assert list(as_messages([Output("hologram")], 1)) == []
