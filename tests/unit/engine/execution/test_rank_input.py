import builtins
import getpass
import os
import signal
import sys
import threading

import pytest
from IPython.core.error import StdinNotImplementedError

from jupyter_dist.engine.execution.rank_input import RankInput
from jupyter_dist.protocol.messages import AskInput, CellOutput, InputAnswered, WithdrawInput


class Rank:
    """What it has posted; answers each question with what a test has put there."""

    def __init__(self):
        self.posted, self.answers, self.said = [], [], None
        self.cell = "cell-3"
        self.input = RankInput(lambda: 2, lambda: self.cell, lambda: self.said, self.post)

    def post(self, message):
        self.posted.append(message)
        if isinstance(message, AskInput) and self.answers:
            answer = self.answers.pop(0)
            if callable(answer):
                answer()
            else:
                self.input.on_answer(InputAnswered(message.number, *answer))


@pytest.fixture
def rank(monkeypatch):
    rank = Rank()
    for owner, name in ((builtins, "input"), (getpass, "getpass"), (sys, "stdin")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    rank.input.install()
    yield rank
    sys.stdin.close()


def test_what_is_asked_is_posted_behind_what_was_said(rank):
    rank.said = CellOutput(2, "cell-3", ())
    rank.answers = [("Ada",), ("secret",), ("a line",)]
    assert [input("name? "), getpass.getpass(), sys.stdin.readline()] == [
        "Ada",
        "secret",
        "a line\n",
    ]
    assert rank.posted[::2] == [rank.said] * 3
    assert rank.posted[1::2] == [
        AskInput(2, "cell-3", 1, "name? "),
        AskInput(2, "cell-3", 2, "Password: ", True),
        AskInput(2, "cell-3", 3, ""),
    ]


def test_a_prompt_is_what_can_be_sent(rank):
    rank.answers = [("",)]
    assert input(["\ud800"] * 3) == ""
    rank.answers = [("",)]
    input("\ud800" + "x" * 100_000)
    prompt = rank.posted[-1].prompt
    assert prompt.startswith("\\ud800x")
    assert len(prompt) < 20_000


def test_the_end_of_input_is_told_as_python_does(rank):
    rank.answers = [(None,)] * 2
    with pytest.raises(EOFError):
        input()
    assert sys.stdin.readline() == ""
    assert [*sys.stdin] == []
    assert sys.stdin.read() == ""


def test_where_no_one_can_be_asked_the_error_says_why_and_what_to_do(rank):
    rank.answers = [(None, "no terminal")]
    with pytest.raises(StdinNotImplementedError, match=r"input\('a'\).*no terminal.*%dist_push"):
        input("a")
    rank.cell = ""
    with pytest.raises(StdinNotImplementedError, match="only a cell"):
        getpass.getpass()


def test_an_interrupt_withdraws_the_question(rank):
    rank.answers = [lambda: signal.raise_signal(signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt):
        input("name? ")
    assert rank.posted[1:] == [WithdrawInput(2, "cell-3", 1)]
    rank.input.on_answer(InputAnswered(1, "too late"))


def test_a_copy_by_fork_does_not_wait(rank, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(StdinNotImplementedError, match="fork"):
        input()
    assert rank.posted == []


def test_threads_of_a_cell_get_each_its_own_answer(rank):
    got, asked = {}, threading.Barrier(3)

    def ask(name):
        got[name] = input(name)

    rank.post = lambda message: (rank.posted.append(message), asked.wait(10))
    rank.input._post = rank.post
    threads = [threading.Thread(target=ask, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    asked.wait(10)
    for message in rank.posted:
        rank.input.on_answer(InputAnswered(message.number, message.prompt * 2))
    for thread in threads:
        thread.join(10)
    assert got == {"a": "aa", "b": "bb"}
