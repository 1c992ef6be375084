"""Conversations over connections that break: nothing is lost, doubled, or out of order."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.protocol import conversation
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.conversation import Conversation


def note(text):
    return pb.AgentEvent(note=pb.Note(text=text))


class Pair:
    """An agent's and a coordinator's end, with a connection that may break at any message."""

    def __init__(self):
        self.agent = Conversation(pb.AgentEvent)
        self.home = Conversation(pb.AgentCommand)
        self.heard: list[str] = []
        self.obeyed: list[str] = []
        self.dial()

    def dial(self):
        self._numbers = self.agent.connect(), self.home.connect()
        self._up = self.agent.outgoing(self._numbers[0])
        self._down = self.home.outgoing(self._numbers[1])

    def carry_event(self, *, is_lost=False):
        event = next(self._up)
        if not is_lost and self.home.take(self._numbers[1], event):
            self.heard.append(event.note.text)

    def carry_command(self, *, is_lost=False):
        command = next(self._down)
        if not is_lost and self.agent.take(self._numbers[0], command):
            self.obeyed.append(command.remove_placed.request_id)

    def carry_what_is_left(self, said, ordered):
        if len(self.heard) < said:
            self.carry_event()
        if len(self.obeyed) < ordered:
            self.carry_command()


steps = st.lists(st.sampled_from(["say", "order", "up", "down", "break", "lose"]), max_size=80)


@given(steps)
def test_whatever_breaks_each_message_arrives_once_and_in_order(plan):
    pair = Pair()
    said, ordered = [], []
    for step in plan:
        if step == "say":
            said.append(f"event {len(said)}")
            pair.agent.say(note(said[-1]))
        elif step == "order":
            ordered.append(f"command {len(ordered)}")
            removal = pb.RemovePlaced(request_id=ordered[-1])
            pair.home.say(pb.AgentCommand(remove_placed=removal))
        elif step in ("up", "lose") and len(said) > len(pair.heard):
            pair.carry_event(is_lost=step == "lose")
        elif step == "down" and len(ordered) > len(pair.obeyed):
            pair.carry_command()
        if step in ("break", "lose"):  # what is lost is lost with its connection
            pair.dial()
    pair.dial()
    for _ in range(1000):
        pair.carry_what_is_left(len(said), len(ordered))
    assert (pair.heard, pair.obeyed) == (said, ordered)


def test_what_was_confirmed_is_not_kept_and_one_who_only_listens_confirms_too():
    pair = Pair()
    for number in range(conversation.ACKNOWLEDGE_AFTER):
        pair.agent.say(note(str(number)))
        pair.carry_event()
    assert pair.agent.kept_bytes > 0
    pair.carry_command()  # has no content
    assert pair.agent.kept_bytes == 0
    assert pair.obeyed == []


def test_what_is_kept_for_another_connection_is_bounded(monkeypatch):
    monkeypatch.setattr(conversation, "WINDOW_BYTES", 1000)
    agent = Conversation(pb.AgentEvent)
    for _ in range(100):
        agent.say(note("x" * 90))
    outgoing = agent.outgoing(connection := agent.connect())
    taken = [next(outgoing) for _ in range(11)]
    assert 1000 <= agent.kept_bytes < 1200
    waiting = threading.Thread(target=lambda: taken.append(next(outgoing)))
    waiting.start()
    assert len(taken) == 11
    agent.take(connection, pb.AgentCommand(taken=11))
    waiting.join(5)
    assert taken[-1].number == 12


def test_a_connection_that_was_replaced_says_and_takes_nothing_more():
    agent = Conversation(pb.AgentEvent)
    old = agent.connect()
    outgoing = agent.outgoing(old)
    new = agent.connect()
    agent.say(note("hello"))
    assert list(outgoing) == []
    assert not agent.take(old, pb.AgentCommand(number=1))
    assert not agent.disconnect(old)
    assert agent.take(new, pb.AgentCommand(number=1))


@pytest.mark.parametrize("is_early", [True, False])
def test_the_end_comes_after_all_that_was_said(is_early):
    agent = Conversation(pb.AgentEvent)
    agent.say(note("first"))
    agent.say(note("last"))
    connection = agent.connect()
    if is_early:
        agent.end()
        assert [each.note.text for each in agent.outgoing(connection)] == ["first", "last"]
    else:
        outgoing = agent.outgoing(connection)
        assert [next(outgoing).note.text for _ in range(2)] == ["first", "last"]
        agent.end()
        assert list(outgoing) == []
