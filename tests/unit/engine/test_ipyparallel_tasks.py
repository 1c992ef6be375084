"""Orders to join and leave: each is answered, whatever goes wrong, and the next one carried out."""

import queue
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import msgspec
import pytest

from jupyter_dist.engine.ipyparallel_tasks import IpyparallelTasks
from jupyter_dist.frameworks.ipyparallel import engine
from jupyter_dist.protocol.messages import ControllerJoined, ControllerLeft
from jupyter_dist.protocol.messages import JoinController as Join
from jupyter_dist.protocol.messages import LeaveController as Leave

RANK = 3
PLACE = msgspec.json.encode({"interface": "tcp://127.0.0.1"})


class FakeEngine:
    """Joins, and leaves, as the test says."""

    problem = None
    problem_at_start = None
    left = 0

    def __init__(self, place, rank, seat):
        if self.problem is not None:
            raise self.problem
        self._seat = seat

    def start(self):
        if self.problem_at_start is not None:
            raise self.problem_at_start
        self._seat.tell_joined("")

    def leave(self, timeout_s):
        type(self).left += 1


@pytest.fixture
def fake(monkeypatch):
    made = type("Engine", (FakeEngine,), {})
    monkeypatch.setattr(engine, "ParallelEngine", made)
    return made


@pytest.fixture
def tasks(fake):
    del fake
    posted = queue.SimpleQueue()
    made = IpyparallelTasks(SimpleNamespace(rank=RANK), None, posted.put, None)
    made.hear = lambda: posted.get(timeout=10)
    return made


def join(tasks, request_id="1"):
    tasks.order(Join(request_id, PLACE, RANK))
    return tasks.hear()


def leave(tasks, request_id="2"):
    tasks.order(Leave(request_id))
    return tasks.hear()


def test_a_rank_joins_and_leaves(tasks, fake):
    assert join(tasks) == ControllerJoined(RANK, "1", "")
    assert leave(tasks) == ControllerLeft(RANK, "2")
    assert leave(tasks) == ControllerLeft(RANK, "2")
    assert fake.left == 1


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (OSError(24, "Too many open files"), "OSError: [Errno 24] Too many open files"),
        (AttributeError("no zmq.Context"), "AttributeError: no zmq.Context"),
        (ImportError("no ipyparallel"), "pip install 'ipyparallel>=9,<10'"),
        (KeyError("key"), "not whole"),
    ],
)
def test_what_hinders_it_is_answered_and_the_next_order_carried_out(tasks, fake, problem, text):
    fake.problem = problem
    assert text in join(tasks).problem
    fake.problem = None
    assert leave(tasks) == ControllerLeft(RANK, "2")
    assert join(tasks, "3") == ControllerJoined(RANK, "3", "")


def test_an_engine_that_could_not_begin_is_not_left(tasks, fake):
    fake.problem_at_start = RuntimeError("no thread")
    assert join(tasks).problem == "RuntimeError: no thread"
    leave(tasks)
    assert fake.left == 0


def test_an_order_that_cannot_be_carried_out_does_not_keep_the_next_one(tasks, monkeypatch, capsys):
    with monkeypatch.context() as broken:
        broken.setattr(tasks, "leave", Mock(side_effect=MemoryError("no matter")))
        tasks.order(Leave("1"))
        tasks.order(Join("2", b"", RANK))  # behind it, and without an answer
        _wait_for_the_worker(tasks)
    assert "no matter" in capsys.readouterr().err
    assert join(tasks, "3") == ControllerJoined(RANK, "3", "")


def _wait_for_the_worker(tasks):
    worker = tasks._worker
    if worker is not None:
        worker.join(10)


def test_orders_are_answered_where_no_thread_can_be_had(tasks, monkeypatch):
    assert join(tasks).problem == ""
    _wait_for_the_worker(tasks)

    with monkeypatch.context() as broken:
        problem = RuntimeError("no thread")
        broken.setattr(threading.Thread, "start", Mock(side_effect=problem))
        assert join(tasks, "2").problem == "RuntimeError: no thread"
        assert leave(tasks, "3") == ControllerLeft(RANK, "3")
    assert join(tasks, "4") == ControllerJoined(RANK, "4", "")
