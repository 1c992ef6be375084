import contextlib
import sys
from functools import cached_property

import pytest

from jupyter_dist.engine.debugging.rank_pdb import RankPdb, find_users_frame

CELL = "/dev/shm/x/In_5_0a1b2c3d.py"


class Person:
    """Types one command after the other; knows at which places."""

    def __init__(self):
        self.commands, self.places, self.held, self.has_quit = [], [], [], False

    @cached_property
    def debugger(self):
        return RankPdb(self.ask, self.hold, self.quit)

    def ask(self, place):
        self.places.append(place)
        return self.commands.pop(0)

    @contextlib.contextmanager
    def hold(self, place):
        self.held.append(place)
        yield

    def quit(self):
        self.has_quit = True

    def breakpoint(self):
        self.debugger.stop(find_users_frame(sys._getframe(1)))

    def run(self, code, *commands, **names):
        """Run the statements of a cell, one by one as IPython does; give its names."""
        self.commands += commands
        names = {"__name__": "__main__", "stop": self.breakpoint, **names}
        before = sys.gettrace()
        try:
            for statement in code.split("\n\n"):
                line = code[: code.index(statement)].count("\n")
                exec(compile("\n" * line + statement, CELL, "exec"), names)
        finally:
            sys.settrace(before)
        assert self.commands == []
        return names


@pytest.fixture
def person(capsys):
    return Person()


def test_it_stops_at_the_call_itself_and_steps_from_statement_to_statement(person, capsys):
    person.run("x = 1\n\nstop()\n\ny = 2\n\nz = 3", "n", "p x", "n", "c")
    assert person.places == ["In[5]:3", "In[5]:5", "In[5]:5", "In[5]:7"]
    assert person.held == ["In[5]:3", "In[5]:5", "In[5]:7"]
    said = capsys.readouterr().out
    assert "In[5]:3 <module>()" in said
    assert CELL not in said


def test_it_steps_into_functions_and_out_of_them(person):
    person.run("def f():\n    return 4\n\nstop()\n\na = f()\n\nb = 1", "n", "s", "s", "r", "c")
    assert person.places == ["In[5]:4", "In[5]:6", "In[5]:1", "In[5]:2", "In[5]:2"]


def test_to_go_on_leaves_no_trace_function(person):
    names = person.run("stop()\n\nimport sys\n\ntraced = sys.gettrace()", "c")
    assert names["traced"] is None


@pytest.mark.parametrize("command", ["q", "quit", "exit", "EOF"])
def test_quitting_ends_nothing(person, command):
    names = person.run("stop()\n\nend = 5", command)
    assert (names["end"], person.has_quit) == (5, True)


class Awkward:
    def __repr__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "command",
    ["p broken", "1/0", "!exit()", "run", "restart", "debug 1", "b nowhere:3", "display broken"],
)
def test_a_command_that_fails_costs_nothing(person, command):
    names = person.run("stop()\n\nend = 5", command, "c", broken=Awkward())
    assert (names["end"], person.places) == (5, ["In[5]:1"] * 2)


def test_variables_can_be_changed(person):
    assert person.run("x = 1\n\nstop()\n\ny = x", "x = 7", "c")["y"] == 7


def test_an_interrupt_at_the_prompt_is_one_of_the_program(person, monkeypatch):
    def press(place):
        raise KeyboardInterrupt

    monkeypatch.setattr(person.debugger._commands, "_ask", press)
    with pytest.raises(KeyboardInterrupt):
        person.run("stop()\n\nend = 5")


def test_an_error_is_looked_at_where_it_was_raised(person, capsys):
    def fail(x):
        return 1 / x

    try:
        fail(0)
    except ZeroDivisionError as error:
        person.commands += ["p x", "n", "u", "c"]
        person.debugger.look_at(error, error.__traceback__)
    assert person.places[0].startswith(__file__)
    assert "\n0\n" in capsys.readouterr().out
    assert len(person.places) == 4, "n is no way on from an error"
