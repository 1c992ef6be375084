"""Which task has the main thread next, and what clients are answered meanwhile."""

from types import SimpleNamespace

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.frameworks.ipyparallel.task_queue import LONG_TASK_S, TaskQueue
from jupyter_dist.frameworks.ipyparallel.tasks import Request
from jupyter_dist.protocol.messages import ErrorInfo, Output


class FakeSpeech:
    """Notes what is said and shown, as (type, request, status or state)."""

    def __init__(self):
        self.thresholds = {}
        self.said = []
        self.shown = []

    def say(self, socket, kind, content, parent, idents, **more):
        self.said.append((kind, parent["header"]["msg_id"], content["status"]))
        self.metadata = more["metadata"]

    def publish(self, socket, kind, content, parent, buffers=()):
        self.shown.append((kind, content))

    def engine_info(self, method):
        return {"method": method}


class FakeSeat:
    """Keeps what it gets."""

    def __init__(self):
        self.handed_over = []
        self.told = []

    def hand_over(self, task):
        self.handed_over.append(task)

    def take_output(self, task):
        return (Output("stdout", "so far\n"),)

    def interrupt(self):
        self.told.append("interrupt")

    def tell_began(self, label, running_s):
        self.told.append(label)

    def tell_ended(self):
        self.told.append("ended")


@pytest.fixture
def turns():
    speech, seat = FakeSpeech(), FakeSeat()
    channels = SimpleNamespace(shell="shell", control="control", iopub="iopub")
    made = TaskQueue(speech, channels, seat, lambda: None)
    made.speech, made.seat = speech, seat
    return made


def ask(turns, name, kind="execute", **content):
    header = {"msg_id": name, "msg_type": f"{kind}_request"}
    message = {"header": header, "metadata": {}, "content": {"code": "1", **content}, "buffers": []}
    assert turns.take(Request([b"client"], message))


def begin(turns, index=-1):
    """Have the main thread begin a task that it has got."""
    task = turns.seat.handed_over[index]
    assert task.claim()
    turns.take_in()
    return task


def end(turns, task, error=None):
    value = {"user_expressions": {}, "payload": []}
    task.end(SimpleNamespace(value=value, error=error, outputs=()))
    turns.take_in()


def names(turns):
    return [task.request.message_id for task in turns.seat.handed_over]


def test_the_main_thread_gets_one_task_at_a_time(turns):
    for name in "abc":
        ask(turns, name)
    assert names(turns) == ["a"]
    end(turns, begin(turns))
    assert names(turns) == ["a", "b"]
    assert turns.speech.said == [("execute_reply", "a", "ok")]


def test_what_has_not_begun_can_be_aborted_also_where_it_is_next(turns):
    for name in "abc":
        ask(turns, name)
    turns.abort(["a", "b"])
    assert [said[1:] for said in turns.speech.said] == [("a", "aborted"), ("b", "aborted")]
    assert names(turns) == ["a", "c"]
    assert not turns.seat.handed_over[0].claim()


def test_what_has_begun_is_not_aborted(turns):
    ask(turns, "a")
    task = begin(turns)
    turns.abort(None)
    assert turns.speech.said == []
    end(turns, task)
    assert turns.speech.said == [("execute_reply", "a", "ok")]


def test_a_request_that_was_aborted_before_it_came_is_not_run(turns):
    turns.abort("late")
    ask(turns, "late")
    assert turns.speech.said == [("execute_reply", "late", "aborted")]
    assert names(turns) == []


def test_code_behind_code_that_failed_is_aborted_and_other_requests_are_not(turns):
    ask(turns, "a")
    ask(turns, "b")
    ask(turns, "c", "clear")
    end(turns, begin(turns), ErrorInfo("ValueError", "no"))
    assert [said[1:] for said in turns.speech.said] == [("b", "aborted"), ("a", "error")]
    assert names(turns) == ["a", "c"]


@pytest.mark.parametrize("content", [{"silent": True}, {"stop_on_error": False}])
def test_code_that_may_fail_stops_nothing(turns, content):
    ask(turns, "a", **content)
    ask(turns, "b")
    end(turns, begin(turns), ErrorInfo("ValueError", "no"))
    assert names(turns) == ["a", "b"]


def test_an_unmet_dependency_is_told_to_the_scheduler(turns):
    ask(turns, "a")
    end(turns, begin(turns), ErrorInfo("UnmetDependency", ""))
    assert turns.speech.metadata["dependencies_met"] is False


def test_only_what_takes_long_is_told_of(turns):
    ask(turns, "a", "clear")
    ask(turns, "b")
    task = begin(turns)
    turns.look(0.0)
    end(turns, task)
    assert turns.seat.told == []
    task = begin(turns)
    turns.look(turns._began_s + LONG_TASK_S + 0.1)
    end(turns, task)
    assert turns.seat.told == ["execute", "ended"]


def test_output_is_shown_while_a_task_runs_and_it_is_idle_last(turns):
    ask(turns, "a")
    turns.look(0.0)
    assert turns.speech.shown == []
    task = begin(turns)
    turns.look(0.0)
    end(turns, task)
    kinds = [kind for kind, _ in turns.speech.shown]
    assert kinds == ["status", "execute_input", "stream", "status"]
    assert turns.speech.shown[-1][1] == {"execution_state": "idle"}


def test_interrupts_go_to_a_running_task_only(turns):
    assert turns.interrupt() == {"status": "ok"}
    ask(turns, "a")
    assert turns.interrupt()["status"] == "error"
    assert turns.seat.told == []
    begin(turns)
    assert turns.interrupt() == {"status": "ok"}
    assert turns.seat.told == ["interrupt"]


def test_nothing_is_handed_over_after_the_end(turns):
    ask(turns, "a")
    turns.end()
    assert not turns.seat.handed_over[0].claim()


def test_what_runs_on_after_the_end_is_told_of_until_it_ends(turns):
    ask(turns, "a")
    ask(turns, "b")
    task = begin(turns)
    turns.end()
    assert turns.seat.told == ["execute"]
    task.end(SimpleNamespace(value=None, error=None, outputs=()))
    assert turns.seat.told == ["execute", "ended"]
    assert names(turns) == ["a"]
    assert turns.speech.said == [("execute_reply", "b", "aborted")], "it was never run"


@pytest.mark.parametrize("ends_first", [False, True])
def test_what_was_told_of_is_not_told_twice_at_the_end(turns, ends_first):
    ask(turns, "a")
    task = begin(turns)
    turns.look(turns._began_s + LONG_TASK_S + 0.1)
    if not ends_first:
        turns.end()
        turns.publish_data({"heard by": "nobody"})
    task.end(SimpleNamespace(value={}, error=None, outputs=()))
    if ends_first:
        turns.end()
    assert turns.seat.told == ["execute", "ended"]


def test_what_has_ended_just_before_the_end_is_answered(turns):
    ask(turns, "a")
    ask(turns, "b")
    task = turns.seat.handed_over[-1]
    assert task.claim()
    task.end(SimpleNamespace(value={}, error=None, outputs=()))
    turns.end()
    assert turns.speech.said == [("execute_reply", "a", "ok"), ("execute_reply", "b", "aborted")]
    assert names(turns) == ["a"]
    assert turns.last_answers == {"b"}


def test_nobody_is_woken_after_the_end(turns):
    rung = []
    turns._wake = lambda: rung.append(1)
    ask(turns, "a")
    task = begin(turns)
    turns.end()
    rung.clear()
    task.end(SimpleNamespace(value=None, error=None, outputs=()))
    assert not rung


def test_data_is_published_from_within_a_task_only(turns):
    with pytest.raises(UsageError, match="outside a task"):
        turns.publish_data({"a": 1})
    ask(turns, "a")
    begin(turns)
    turns.publish_data({"a": 1})
    turns.take_in()
    assert turns.speech.shown[-1] == ("data_message", {"keys": ["a"]})
