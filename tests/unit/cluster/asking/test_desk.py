import builtins
import os
import signal
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet

import pytest

from jupyter_dist.cluster.asking import desk as desk_module
from jupyter_dist.cluster.asking.desk import Desk
from jupyter_dist.protocol.messages import AnswerInput, AskPerson, InputShown
from jupyter_dist.text.lists import Passing

QUESTION = AskPerson("cell-1", 2, 5, "name? ")
ANSWER = AnswerInput("cell-1", 2, 5, "Ada")


class Line:
    is_far = False

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)


@pytest.fixture
def line():
    return Line()


@pytest.fixture
def notes():
    return []


@pytest.fixture
def desk(line, notes, monkeypatch):
    monkeypatch.setattr(desk_module, "find_absence", str)
    return Desk(line, notes.append)


@pytest.fixture
def ended():
    return Future()


@pytest.fixture
def types(monkeypatch):
    """Have the person do this when they are asked."""

    def install(act):
        monkeypatch.setattr(builtins, "input", act)

    return install


def test_a_question_is_kept_and_told_until_the_program_waits(desk, line, notes, ended, types):
    assert not desk.look(None)
    assert not desk.look(QUESTION)
    assert not desk.look(QUESTION)
    assert line.sent == [InputShown("cell-1", 2, 5, os.getpid())]
    assert notes == ["rank 2 waits for input"]
    assert (
        desk.add_hint(Passing("rank 2 waits"))
        == "rank 2 waits; wait() of its BackgroundCell asks you"
    )
    assert desk.add_hint("1 MiB not kept") == "1 MiB not kept"

    def read(prompt):
        threading.Timer(0, ended.set_result, ["the end"]).start()
        return "Ada"

    types(read)
    desk.wait(ended, None)
    assert desk.look(QUESTION)
    assert line.sent[-1] == ANSWER
    assert not desk.look(None)
    assert notes[-1] == ""


def test_where_no_person_is_the_answer_is_why(desk, line, notes, monkeypatch):
    monkeypatch.setattr(desk_module, "find_absence", lambda: "no terminal")
    assert desk.look(QUESTION)
    assert line.sent == [AnswerInput("cell-1", 2, 5, problem="no terminal")]
    assert "".join(notes) == ""


def test_a_question_that_is_over_is_taken_from_the_person(desk, line, ended, types):
    desk.look(QUESTION)

    def read(prompt):
        threading.Timer(0, lambda: (desk.look(None), ended.set_result("the end"))).start()
        signal.pause()

    types(read)
    desk.wait(ended, None)
    assert AnswerInput not in map(type, line.sent)


def test_a_question_outlives_a_wait_that_is_interrupted(desk, line, ended, types):
    desk.look(QUESTION)
    types(lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        desk.wait(ended, None)
    assert not desk.look(QUESTION)

    def read(prompt):
        ended.set_result("the end")
        return "Ada"

    types(read)
    desk.wait(ended, None)
    assert desk.look(QUESTION)


def test_with_a_limit_and_on_other_threads_it_only_waits(desk, ended, types, in_thread):
    desk.look(QUESTION)
    types(lambda _: pytest.fail("asked"))
    with pytest.raises(NotYet):
        desk.wait(ended, 0.01)
    threading.Timer(0, ended.set_result, ["the end"]).start()
    in_thread(lambda: desk.wait(ended, None))


def test_at_a_prompt_of_the_debugger_it_is_said_where_that_is_shown(desk, notes):
    stopped = AskPerson("cell-1", 2, 5, "(Pdb) ", who="ranks 0-2 at In[1]:2")
    desk.look(stopped)
    assert desk.has(stopped)
    assert notes == ["in the debugger: ranks 0-2 at In[1]:2"]
    hint = desk.add_hint(Passing("ranks 0-2 are in the debugger"))
    assert "wait()" in hint
    assert "%dist_debug" in hint
