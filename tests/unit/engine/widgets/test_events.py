"""Events of a page: in order, put together where they are too many, and never without an answer."""

import json
from types import SimpleNamespace

import msgspec
import pytest

from jupyter_dist.engine.execution.executor import Ending
from jupyter_dist.engine.widgets import events
from jupyter_dist.engine.widgets.events import TOLD_AFTER_S, WidgetEvents
from jupyter_dist.protocol.messages import (
    CommHandled,
    CommReceived,
    ErrorInfo,
    Output,
    TaskBegan,
    TaskEnded,
)

RANK = 2


class Comm:
    def __init__(self):
        self.heard = []

    def handle_msg(self, message):
        self.heard.append(message["content"]["data"])


class Executor:
    """Runs what it is given at once; `ending` is how that ends."""

    rank = RANK

    def __init__(self):
        self.ending = Ending("ok", 0.0, None, None, (), (0, 0))
        self.during = lambda: None
        self.shell = SimpleNamespace(last_traceback=())

    def run_task(self, task):
        self.during()
        task.carry_out(self.shell)
        task.end(self.ending)


@pytest.fixture
def page():
    """A widget's comm, `comm`, what waits for the main thread, `work`, and what is posted."""
    made = SimpleNamespace(comm=Comm(), work=[], posted=[], executor=Executor(), number=0)
    comms = SimpleNamespace(find=lambda name: made.comm if name == "c" else None)
    made.events = WidgetEvents(comms, made.executor, made.posted.append, made.work.append)

    def send(data, buffers=(), comm_id="c"):
        made.number += 1
        content = json.dumps({"data": data}).encode()
        made.events.take(CommReceived(comm_id, made.number, "msg", content), list(buffers))

    def run():
        while made.work:
            made.work.pop(0)()

    made.send, made.run = send, run
    return made


def update(**state):
    return {"method": "update", "state": state}


def test_events_reach_the_widget_in_order_and_each_is_answered(page):
    page.send({"method": "custom", "content": 1})
    page.send({"method": "custom", "content": 2})
    page.run()
    assert [each["content"] for each in page.comm.heard] == [1, 2]
    assert page.posted == [CommHandled(RANK, "c", 1), CommHandled(RANK, "c", 2)]


def test_changes_that_wait_for_a_busy_rank_are_put_together(page):
    for value in range(5):
        page.send(update(value=value))
    page.send(update(other=1))
    page.run()
    assert [each["state"] for each in page.comm.heard] == [{"value": 4, "other": 1}]
    assert page.posted == [CommHandled(RANK, "c", 6)]


def test_changes_are_not_moved_past_what_came_between_them(page):
    page.send(update(value=1))
    page.send({"method": "custom", "content": "click"})
    page.send(update(value=2))
    page.send(update(image=None), [b"bytes"])
    page.run()
    assert [each["method"] for each in page.comm.heard] == ["update", "custom", "update", "update"]


def test_what_callbacks_say_and_raise_is_told_with_the_answer(page):
    said = Output("stdout", "hello\n")
    page.executor.ending = msgspec.structs.replace(page.executor.ending, outputs=(said,))
    page.executor.shell.last_traceback = ("Traceback", "ValueError: no")
    page.send({"method": "custom"})
    page.run()
    assert page.posted[0].outputs == (said, Output("stderr", "Traceback\nValueError: no\n"))


def test_an_interrupt_without_a_traceback_is_told_by_its_name(page):
    error = ErrorInfo("KeyboardInterrupt", "")
    page.executor.ending = msgspec.structs.replace(page.executor.ending, error=error)
    page.send({"method": "custom"})
    page.run()
    assert page.posted[0].outputs == (Output("stderr", "KeyboardInterrupt\n"),)


def test_an_event_for_a_widget_that_is_closed_is_answered(page):
    page.send(update(value=1), comm_id="closed")
    page.run()
    assert page.comm.heard == []
    assert page.posted == [CommHandled(RANK, "closed", 1)]


@pytest.mark.parametrize("limit", ["MOST_WAITING", "MOST_WAITING_BYTES"])
def test_what_is_too_much_is_left_out_and_said(page, monkeypatch, limit):
    monkeypatch.setattr(events, limit, {"MOST_WAITING": 1, "MOST_WAITING_BYTES": 60}[limit])
    page.send({"method": "custom", "content": 1})
    page.send({"method": "custom", "content": 2})
    assert (page.posted[0].number, page.posted[0].outputs[0].kind) == (2, "stderr")
    page.run()
    assert [each["content"] for each in page.comm.heard] == [1]


def test_what_is_no_json_is_refused(page):
    page.events.take(CommReceived("c", 1, "msg", b"{"), [])
    assert page.work == []
    assert "not JSON" in page.posted[0].outputs[0].text


def test_an_event_that_takes_long_is_told_of_as_a_task_is(page, monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr(events, "monotonic", lambda: now_s[0])

    def take_long():
        page.events.look()
        now_s[0] += TOLD_AFTER_S + 0.1
        page.events.look()
        page.events.look()

    page.executor.during = take_long
    page.send({"method": "custom"})
    page.run()
    kinds = [type(each) for each in page.posted]
    assert kinds == [TaskBegan, CommHandled, TaskEnded]
