import sys
from types import SimpleNamespace

import pytest

from jupyter_dist.cluster.asking.front_end import find_obstacle, is_person_there


@pytest.fixture
def surroundings(monkeypatch):
    """Have a program run in a kernel (True: that takes input), or with this standard input."""

    def be(*, stdin=None, takes_input=None):
        kernel = None if takes_input is None else SimpleNamespace(_allow_stdin=takes_input)
        shell = SimpleNamespace(kernel=kernel)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        monkeypatch.setattr(sys, "stdin", stdin)

    return be


def stream(answer):
    def isatty():
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(isatty=isatty)


def test_a_notebook_can_be_asked_if_its_front_end_says_so(surroundings):
    surroundings(takes_input=True)
    assert find_obstacle() == ""
    surroundings(takes_input=False, stdin=stream(True))
    assert "takes no input" in find_obstacle()


@pytest.mark.parametrize("stdin", [None, stream(False), stream(ValueError("closed"))])
def test_a_program_without_a_terminal_cannot_be_asked(surroundings, stdin):
    surroundings(stdin=stdin)
    assert "no terminal" in find_obstacle()
    surroundings(stdin=stream(True))
    assert find_obstacle() == ""


def test_a_thread_beside_the_program_cannot_be_asked(surroundings, in_thread):
    surroundings(takes_input=True)
    assert "background" in in_thread(find_obstacle)


def test_a_person_is_at_a_prompt_or_in_a_notebook_that_takes_input(surroundings, monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    for takes_input in (True, False):
        surroundings(takes_input=takes_input)
        assert is_person_there() is takes_input
    surroundings()
    assert is_person_there()
    monkeypatch.delattr(sys, "ps1")
    assert is_person_there() is bool(sys.flags.interactive)
