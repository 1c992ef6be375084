"""Comms of a rank, with the real packages `comm` and ipywidgets."""

import json
from datetime import datetime

import comm
import numpy as np
import pytest

from jupyter_dist.engine.widgets import rank_comms
from jupyter_dist.engine.widgets.rank_comms import RankComms
from jupyter_dist.errors import UsageError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.protocol.messages import WIDGET_VIEW, Output


@pytest.fixture
def posted():
    return []


@pytest.fixture
def comms(posted, monkeypatch):
    monkeypatch.setattr(comm, "create_comm", comm.create_comm)
    made = RankComms(lambda: 1, lambda *said: posted.append(said), posted.append)
    made.watch(ImportHooks())
    made.are_shown = True
    yield made
    made.are_shown = False


def contents(posted):
    return [(message.kind, json.loads(message.content)["data"]) for message, _ in posted]


def test_a_widget_opens_changes_and_closes_its_comm(comms, posted):
    from ipywidgets import Layout, Widget

    layout = Layout(width="1px")
    assert comms.find(layout.model_id) is layout.comm
    layout.width = "2px"
    Widget.close(layout)
    kinds = [kind for kind, _ in contents(posted)]
    assert kinds == ["open", "msg", "close"]
    assert contents(posted)[1][1]["state"] == {"width": "2px"}
    assert {message.comm_id for message, _ in posted} == {posted[0][0].comm_id}


def test_nothing_is_sent_that_no_page_shows(comms, posted):
    comms.are_shown = False
    comm.create_comm(target_name="t", data={}).send({"a": 1})
    assert posted == []


def test_the_kernel_echoes_and_not_the_rank(comms, posted):
    comm.create_comm(target_name="t").send({"method": "echo_update", "state": {}})
    assert [kind for kind, _ in contents(posted)] == ["open"]


def test_buffers_are_those_of_the_moment(comms, posted):
    array = np.arange(3, dtype=np.int32)
    comm.create_comm(target_name="t").send({}, buffers=[memoryview(array)])
    array[:] = 0
    assert posted[-1][1] == [np.arange(3, dtype=np.int32).tobytes()]


def test_values_that_json_does_not_know_are_what_a_kernel_makes_of_them(comms, posted):
    values = {
        "i": np.int64(3),
        "f": np.float32(0.5),
        "t": datetime(2026, 1, 2),
        "b": b"x",
        "s": {1},
    }
    comm.create_comm(target_name="t").send(values)
    expected = {"i": 3, "f": 0.5, "t": "2026-01-02T00:00:00", "b": "eA==", "s": [1]}
    assert contents(posted)[-1][1] == expected


def test_what_cannot_be_sent_is_refused_where_it_is_sent(comms, monkeypatch):
    made = comm.create_comm(target_name="t")
    with pytest.raises(TypeError, match="cannot send a object"):
        made.send({"x": object()})
    monkeypatch.setattr(rank_comms, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="at most 100"):
        made.send({}, buffers=[bytes(101)])


def test_the_page_is_told_of_a_widget_before_it_is_displayed(comms, posted):
    text, widget = (Output("display", data=data) for data in ({}, {WIDGET_VIEW: {"model_id": "w"}}))
    comms.show(text)
    comms.show(widget)
    first, (told, _), last = posted
    assert (first, last) == (text, widget)
    assert (told.comm_id, told.kind) == ("w", "shown")
