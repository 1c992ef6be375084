"""Starts through workers that answer at once, never, or are gone."""

from concurrent.futures import Future

import msgspec
import pytest

from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.launch.workers import agent_starts
from jupyter_dist.launch.workers.agent_starts import AgentStarts
from jupyter_dist.launch.workers.placement import WorkerLocation


class Workers:
    """Three workers on three hosts, of which some go away."""

    ids = (0, 1, 2)

    def __init__(self):
        self.gone = set()
        self.asked = []
        self.futures = []
        self.answers = {
            number: msgspec.to_builtins(
                WorkerLocation(f"host{number}", "", (3, 12), "/env/bin/python", None)
            )
            for number in self.ids
        }

    def submit(self, number, function):
        if number in self.gone:
            raise IndexError(f"no such worker: {number}")
        self.asked.append((number, function))
        future = Future()
        self.futures.append(future)
        if function == "look" and number in self.answers:
            answer = self.answers[number]
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        return future


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(agent_starts, "write_call", lambda function, _values: function)
    monkeypatch.setattr(agent_starts, "_GIVE_UP_TIMEOUT_S", 0.01)
    return Workers()


def starts(workers, timeout_s=20.0):
    return AgentStarts(workers.submit, workers.ids, timeout_s, lambda _: None)


def test_agents_on_all_other_hosts_are_given_up_where_one_worker_is_gone(workers):
    def start():
        with starts(workers) as agents:
            assert agents.find(None) == 3
            for number in workers.ids:
                agents._send(number, "hand_over", {})
            workers.gone = {0}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    assert [future.cancelled() for future in workers.futures[3:6]] == [True] * 3
    assert workers.asked[6:] == [(1, "give_up"), (2, "give_up")]


def test_workers_that_do_not_answer_are_named_with_the_time(workers):
    del workers.answers[1]
    with (
        pytest.raises(StartFailed, match=r"^worker 1 .* 0\.05 s: "),
        starts(workers, 0.05) as agents,
    ):
        agents.find(None)
    assert workers.futures[1].cancelled()


def test_one_that_fails_is_told_with_its_words(workers):
    workers.answers[2] = RuntimeError("out of luck")
    with pytest.raises(StartFailed, match=r"worker 2: out of luck"):
        starts(workers).find(None)


def test_a_worker_that_cannot_be_asked_is_named(workers):
    workers.gone = {1}
    with pytest.raises(UsageError, match=r"^worker 1 .*IndexError: no such worker: 1"):
        starts(workers).find(None)


@pytest.mark.parametrize("answer", [None, 12, "later", {"hostname": "a"}])
def test_what_runs_no_function_is_told_apart(workers, answer):
    workers.answers[0] = answer
    with pytest.raises(UsageError, match=r"worker 0 .*submit\(worker, function\)"):
        starts(workers).find(None)
