import builtins
import getpass
import os
import queue
import signal

import pytest

from jupyter_dist.cluster.asking import person
from jupyter_dist.cluster.asking.person import Interview
from jupyter_dist.errors import ClusterGone
from jupyter_dist.protocol.messages import (
    AnswerInput,
    AskPerson,
    CellEvents,
    InputOver,
    InputShown,
)
from tests.patience import within

QUESTION = AskPerson("cell-1", 2, 5, "name? ")
NEWS, OVER = CellEvents("cell-1", ()), InputOver("cell-1", 2, 5)


class Line:
    """What the coordinator says meanwhile; an exception is raised."""

    is_far = False

    def __init__(self):
        self.sent, self.coming = [], queue.SimpleQueue()

    def send(self, message):
        self.sent.append(message)

    def receive(self, *, waits_out_breaks):
        try:
            message = self.coming.get(timeout=0.02)
        except queue.Empty:
            return
        if isinstance(message, Exception):
            raise message
        yield message, []


@pytest.fixture
def line(monkeypatch):
    monkeypatch.setattr(person, "find_obstacle", str)
    return Line()


@pytest.fixture
def ask(line):
    """Put the question to the person; gives what is listened to, and how often there was rest."""

    def ask(question=QUESTION, *, is_held=False):
        heard, rests = [], []
        try:
            interview = Interview(
                line, question, heard.append, lambda: rests.append(1), is_held=is_held
            )
            interview.ask()
        finally:
            ask.heard, ask.rests = heard, rests

    return ask


@pytest.fixture
def types(monkeypatch):
    """Have the person do this when they are asked; notes the prompts."""
    prompts = []

    def install(act, module=builtins, name="input"):
        def read(prompt):
            prompts.append(prompt)
            return act()

        monkeypatch.setattr(module, name, read)
        return prompts

    return install


def wait_for_end():
    while True:
        signal.pause()


def wait_blind_for_end():
    """Wait in a system call that a SIGINT does not end, as when it came just before the call."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        wait_for_end()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def answers(line):
    return [message for message in line.sent if isinstance(message, AnswerInput)]


def test_the_person_is_told_who_asks_and_the_answer_is_sent(line, ask, types):
    prompts = types(lambda: "Ada \udc80")
    ask()
    assert prompts == ["rank 2: name? "]
    assert answers(line) == [AnswerInput("cell-1", 2, 5, "Ada ?")]
    assert line.sent[0] == InputShown("cell-1", 2, 5, os.getpid())


def test_a_password_is_asked_as_one_and_for_all(line, ask, types):
    prompts = types(lambda: "key", getpass, "getpass")
    ask(AskPerson("cell-1", 2, 5, "", is_password=True, is_for_all=True))
    assert prompts == ["all ranks: "]
    assert answers(line)[0].text == "key"


def raise_(error):
    raise error


@pytest.mark.parametrize("error", [EOFError(), OSError("terminal is gone")])
def test_what_ends_the_input_or_goes_wrong_is_told(line, ask, types, error):
    types(lambda: raise_(error))
    ask()
    (answer,) = answers(line)
    assert (answer.text, "OSError: terminal" in answer.problem) == (None, bool(error.args))


def test_where_no_one_can_be_asked_that_is_the_answer(line, ask, types, monkeypatch):
    monkeypatch.setattr(person, "find_obstacle", lambda: "no terminal")
    ask()
    assert line.sent == [AnswerInput("cell-1", 2, 5, problem="no terminal")]


def test_an_interrupt_is_raised_and_nothing_answered(line, ask, types):
    before = signal.getsignal(signal.SIGINT)
    types(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        ask()
    assert answers(line) == []
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("wait", [wait_for_end, wait_blind_for_end])
@pytest.mark.parametrize("is_held", [False, True])
def test_a_question_that_is_over_is_taken_from_the_person(line, ask, types, is_held, wait):
    def see_the_end_come():
        for message in (InputOver("cell-1", 2, 4), NEWS, OVER, NEWS):
            line.coming.put(message)
        wait()

    types(see_the_end_come)
    with within(5):
        ask(is_held=is_held)
    assert answers(line) == []
    assert ask.heard == [InputOver("cell-1", 2, 4), NEWS]
    assert bool(ask.rests) is not is_held


def test_a_cluster_that_is_gone_ends_the_question(line, ask, types):
    types(wait_for_end)
    line.coming.put(ClusterGone("demo", "it has ended"))
    with pytest.raises(ClusterGone):
        ask()
