"""What runs on workers of others, with a program in the place of our agent."""

import contextlib

import pytest

from jupyter_dist.launch.workers import on_worker
from jupyter_dist.launch.workers.on_worker import (
    begin,
    give_up,
    hand_over,
    hold,
    joined,
    started,
)

PATIENCE_S = 20.0
TOKEN = "our start"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Have these lines of shell run as the agent; it is gone in the end."""
    path = tmp_path / "agent"

    def write(lines):
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o700)
        monkeypatch.setattr(on_worker.sys, "executable", str(path))

    yield write
    with contextlib.suppress(KeyError):
        started[TOKEN].give_up()
    started.clear()


def test_an_agent_that_waits_for_its_invitation_joins_with_it(program):
    program("echo ready; read -r line; echo joined")
    assert begin(TOKEN, [], None, PATIENCE_S) == {"is_good": True, "line": "ready\n"}
    assert hand_over(TOKEN, "come", PATIENCE_S) == {"is_good": True}
    assert started == {}


def test_an_agent_that_was_given_up_for_its_long_wait_is_told_as_such(program):
    program("echo ready; read -r line")
    begin(TOKEN, [], None, PATIENCE_S)
    agent = started[TOKEN]
    agent._timer.function(*agent._timer.args)
    assert agent._process.poll() is not None
    answer = hand_over(TOKEN, "come", PATIENCE_S)
    assert (answer["is_good"], answer["status"]) == (False, None)


def test_an_agent_that_ends_at_once_leaves_its_last_words(program):
    program("echo lost >&2; exit 3")
    answer = begin(TOKEN, [], None, PATIENCE_S)
    assert answer == {"is_good": False, "status": 3, "said": "lost\n"}
    assert started == {}


def test_an_agent_is_ended_that_gets_no_invitation(program):
    program("echo ready; read -r line")
    begin(TOKEN, [], None, PATIENCE_S)
    agent = started[TOKEN]
    give_up(TOKEN)
    assert agent._process.poll() is not None
    give_up(TOKEN)


def test_the_end_of_an_agent_that_is_bound_is_waited_for(program):
    program("echo ready; read -r line; echo joined; exit 7")
    begin(TOKEN, [], None, PATIENCE_S, is_bound=True)
    hand_over(TOKEN, "come", PATIENCE_S)
    assert list(joined) == [TOKEN]
    assert hold(TOKEN) == {"is_good": True, "status": 7}
    assert joined == {}
    assert hold(TOKEN) == {"is_good": True}
