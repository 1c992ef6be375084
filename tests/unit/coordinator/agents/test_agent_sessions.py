"""Sessions of agents: who may go on, and when an agent is gone."""

import os
from unittest.mock import Mock

import pytest

from jupyter_dist.coordinator.agents import agent_sessions
from jupyter_dist.coordinator.agents.admission import NotAdmitted
from jupyter_dist.coordinator.agents.agent_sessions import Sessions
from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.protocol import host_agent_pb2 as pb

NAMES = (b"jupyter-dist-agent b",)
LOST_AFTER_S, SILENCE_S, STOPPED_S = 10.0, 6.0, 2.0


class Watcher:
    """Says of which hosts it knows that their agents have ended."""

    def __init__(self):
        self.ended = set()

    def has_ended(self, host):
        return host in self.ended


class Desk:
    def __init__(self):
        self.witness = Watcher()
        self.told = []
        self.rank_heard_s = 0.0
        self.sessions = Sessions(
            lambda host, event: self.told.append((host, event and event.WhichOneof("event"))),
            self.witness,
            LOST_AFTER_S,
            SILENCE_S,
            STOPPED_S,
        )
        self.session = self.sessions.open("b", NAMES)
        self.stream = Mock()
        joined = event(1, joined=pb.Joined(host="b"))
        self.connection = self.sessions.connect(self.session, joined, self.stream)

    def judge(self, now_s):
        return self.sessions.judge(now_s, lambda: {"b": self.rank_heard_s})

    def end_stream(self):
        """Break the stream, and give the time of that."""
        now_s = self.session.heard_s
        self.sessions.on_break(self.session, self.connection, now_s)
        return now_s


def event(number, **content):
    return pb.AgentEvent(number=number, **content)


@pytest.fixture
def desk():
    return Desk()


def resume(desk, secret=None, names=NAMES):
    session = desk.sessions.find(desk.session.secret if secret is None else secret, names)
    opening = pb.AgentEvent(resume=pb.Resume(session=secret))
    return desk.sessions.connect(session, opening, desk.stream)


def test_an_agent_whose_connection_broke_goes_on_where_it_was(desk):
    assert desk.sessions.attends("b")
    broken_s = desk.end_stream()
    assert not desk.sessions.attends("b")
    desk.judge(broken_s + 9)
    connection = resume(desk)
    assert desk.sessions.attends("b")
    for number in (1, 2, 2, 3):  # the first one came before the break
        note = event(number, note=pb.Note(text=str(number)))
        desk.sessions.take(desk.session, connection, note)
    desk.judge(broken_s + 30)
    assert desk.told == [("b", "joined"), ("b", "note"), ("b", "note")]


def test_what_it_is_told_meanwhile_waits_for_it(desk):
    desk.end_stream()
    assert desk.sessions.say("b", pb.AgentCommand(stop=pb.Stop()))
    outgoing = desk.session.conversation.outgoing(resume(desk))
    assert [next(outgoing).WhichOneof("command") for _ in range(2)] == ["admitted", "stop"]


def test_an_agent_that_stays_away_is_gone_with_the_reason(desk):
    broken_s = desk.end_stream()
    desk.judge(broken_s + LOST_AFTER_S)
    assert desk.told[-1] == ("b", None)
    assert "10.0 s" in desk.sessions.why_gone["b"]
    assert not desk.sessions.attends("b")
    assert not desk.sessions.say("b", pb.AgentCommand())
    with pytest.raises(NotAdmitted):
        resume(desk)


def test_an_agent_that_is_known_to_have_ended_is_gone_at_once(desk):
    desk.witness.ended.add("b")
    desk.judge(desk.session.heard_s)
    assert desk.told[-1] == ("b", "joined")  # what it has said is still on its way
    broken_s = desk.end_stream()
    desk.judge(broken_s)
    assert desk.told[-1] == ("b", None)
    assert desk.sessions.why_gone == {}


@pytest.mark.parametrize("silence_s", [1.0, SILENCE_S, 100.0])
def test_silence_before_the_break_counts_as_long_as_it_may_have_been(desk, silence_s):
    broken_s = desk.session.heard_s + silence_s
    desk.sessions.on_break(desk.session, desk.connection, broken_s)
    gone_s = broken_s + LOST_AFTER_S - 0.5 - min(silence_s, SILENCE_S)
    desk.judge(gone_s - 0.1)
    assert desk.told[-1] != ("b", None)
    desk.judge(gone_s + 0.1)
    assert desk.told[-1] == ("b", None)


def test_a_rank_that_was_heard_shows_that_the_break_came_later(desk):
    broken_s = desk.session.heard_s + 1000  # it had nothing to say
    desk.sessions.on_break(desk.session, desk.connection, broken_s)
    desk.rank_heard_s = broken_s - 1
    desk.judge(broken_s + 8.4)
    assert desk.told[-1] != ("b", None)
    desk.judge(broken_s + 8.6)
    assert desk.told[-1] == ("b", None)


def test_a_rank_that_is_heard_after_the_break_does_not_keep_its_agent(desk):
    broken_s = desk.end_stream()
    desk.rank_heard_s = broken_s + LOST_AFTER_S
    desk.judge(broken_s + LOST_AFTER_S)
    assert desk.told[-1] == ("b", None)


@pytest.mark.parametrize(
    ("secret", "names"), [("", NAMES), ("0" * 32, NAMES), (None, (b"jupyter-dist-agent c",))]
)
def test_only_the_same_agent_with_the_same_certificate_goes_on(desk, secret, names):
    desk.end_stream()
    with pytest.raises(NotAdmitted):
        resume(desk, secret, names)


def test_the_last_word_ends_a_session_without_delay(desk):
    last = event(2, all_stopped=pb.AllStopped(), is_last=True)
    desk.sessions.take(desk.session, desk.connection, last)
    assert desk.told[-2:] == [("b", "all_stopped"), ("b", None)]
    assert desk.sessions.left == {"b"}
    messages = list(desk.session.conversation.outgoing(desk.connection))
    assert [each.WhichOneof("command") for each in messages] == ["admitted"]


def test_a_new_agent_takes_the_place_of_one_that_may_come_back(desk):
    desk.end_stream()
    desk.sessions._left.add("b")
    desk.sessions.open("b", NAMES)
    assert desk.sessions.left == set()
    with pytest.raises(NotAdmitted):
        resume(desk)


def test_a_number_that_means_another_process_here_proves_nothing(desk):
    desk.session.find_process(pb.Joined(machine="another", pid=os.getpid()))
    assert desk.session.pid == 0


@pytest.fixture
def stopped(desk, monkeypatch):
    """The processes of this machine that stand still; the agent has one of number 7."""
    numbers = set()
    monkeypatch.setattr(agent_sessions, "process_is_stopped", numbers.__contains__)
    desk.session.pid = 7
    return numbers


def test_the_connection_of_a_process_that_stands_still_is_broken_after_a_while(desk, stopped):
    assert desk.judge(100.0) == NEVER
    stopped.add(7)
    assert desk.judge(100.5) == NEVER, "it was looked at just before"
    assert desk.judge(101.0) == 103.0
    desk.judge(102.9)
    desk.stream.cancel.assert_not_called()
    desk.judge(103.0)
    desk.stream.cancel.assert_called_once_with()


def test_a_process_that_has_gone_on_begins_anew(desk, stopped):
    for now_s, is_stopped in ((100, True), (102, False), (103, True), (104.9, True)):
        stopped.clear()
        stopped.update({7} if is_stopped else ())
        desk.judge(float(now_s))
    desk.stream.cancel.assert_not_called()
    desk.judge(105.0)
    desk.stream.cancel.assert_called_once_with()


def test_a_connection_that_is_broken_already_is_left_alone(desk, stopped):
    stopped.add(7)
    desk.end_stream()
    for now_s in range(100, 105):
        desk.judge(float(now_s))
    desk.stream.cancel.assert_not_called()


def test_agents_that_are_pinged_are_not_looked_at(desk, stopped):
    desk.sessions._stopped_s = float("inf")
    stopped.add(7)
    for now_s in range(100, 110):
        desk.judge(float(now_s))
    desk.stream.cancel.assert_not_called()
