import os
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest
from IPython.core.error import StdinNotImplementedError

from jupyter_dist.engine.debugging.breakpoints import Breakpoints
from jupyter_dist.engine.debugging.stops import DebuggerStops


class Asks:
    """Answers at the prompt with what a test has put there."""

    def __init__(self):
        self.cell_id, self.commands, self.places = "cell-1", [], []

    def ask(self, _call, _prompt, *, place):
        self.places.append(place)
        command = self.commands.pop(0)
        if isinstance(command, BaseException):
            raise command
        return command


@pytest.fixture
def asks():
    return Asks()


@pytest.fixture
def breakpoints(asks, shell):
    stops = DebuggerStops(lambda: 2, lambda _message: None)
    found = Breakpoints(asks, stops, shell, lambda: 2)
    before = sys.gettrace()
    yield found
    shell.events.trigger("post_run_cell", None)
    sys.settrace(before)


def test_a_stop_asks_until_it_is_let_go_on(breakpoints, asks):
    asks.commands += ["p 1", "c", "c"]
    breakpoints.stop(sys._getframe())
    breakpoints.stop(sys._getframe())
    assert len(asks.places) == 3
    assert asks.places[0].startswith(__file__)


@pytest.mark.parametrize("answer", ["q", None, StdinNotImplementedError("no terminal")])
def test_who_quits_is_asked_no_more_in_this_cell(breakpoints, asks, answer, capsys):
    asks.commands.append(answer)
    breakpoints.stop(sys._getframe())
    breakpoints.stop(sys._getframe())
    assert len(asks.places) == 1
    assert ("no terminal" in capsys.readouterr().err) == isinstance(answer, Exception)
    asks.cell_id = "cell-2"
    asks.commands.append("c")
    breakpoints.stop(sys._getframe())
    assert len(asks.places) == 2


@pytest.mark.parametrize("where", ["between cells", "a forked process", "a thread of the rank"])
def test_where_it_cannot_wait_it_is_passed_over_and_said(
    breakpoints, asks, where, monkeypatch, capsys
):
    if where == "between cells":
        asks.cell_id = ""
    elif where == "a forked process":
        monkeypatch.setattr(os, "getpid", lambda: -1)
    else:
        monkeypatch.setattr(threading, "current_thread", lambda: SimpleNamespace(name="link"))
    breakpoints.stop(sys._getframe())
    assert asks.places == []
    assert "passed over" in capsys.readouterr().err


def test_what_does_not_wait_is_said_once_in_a_cell(breakpoints, asks, monkeypatch, capsys):
    torch = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch)
    asks.commands += ["c", "c"]
    breakpoints.stop(sys._getframe())
    breakpoints.stop(sys._getframe())
    assert capsys.readouterr().err.count("torch.distributed") == 1


def test_the_end_of_a_cell_leaves_nothing_behind(breakpoints, asks, shell):
    asks.commands += ["b 1", "c"]
    breakpoints.stop(sys._getframe())
    shell.events.trigger("post_run_cell", None)
    assert sys.gettrace() is None
    assert shell.events.callbacks["post_run_cell"] == []


def test_time_outs_of_xla_that_do_not_stand_still_are_told_once(
    breakpoints, asks, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    asks.commands += ["c", "c"]
    breakpoints.stop(sys._getframe())
    breakpoints.stop(sys._getframe())
    assert capsys.readouterr().err.count("JAX on CPU") == 1
