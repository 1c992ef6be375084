import builtins
import sys

import pytest

from jupyter_dist.engine.builtins_guard import BuiltinsGuard


@pytest.fixture
def guard():
    guard, before = BuiltinsGuard(), dict(vars(builtins))
    depth = sys.getrecursionlimit()
    yield guard
    vars(builtins).update(before)
    sys.setrecursionlimit(depth)


@pytest.mark.parametrize(
    "name", ["len", "isinstance", "str", "Exception", "any", "map", "print", "open"]
)
def test_what_is_no_function_any_more_is_restored(guard, name):
    before = getattr(builtins, name)
    setattr(builtins, name, None)
    assert guard.repair() == (f"builtins.{name}",)
    assert getattr(builtins, name) is before
    assert guard.repair() == ()


def test_what_is_gone_is_restored(guard):
    before = builtins.zip
    del builtins.zip
    assert guard.repair() == ("builtins.zip",)
    assert builtins.zip is before


def test_what_libraries_replace_stays(guard):
    builtins.print = mine = lambda *_: None
    builtins.profile = mine
    assert guard.repair() == ()
    assert builtins.print is mine
    del builtins.profile


def test_a_rank_keeps_room_for_its_own_calls(guard):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(390)
    (found,) = guard.repair()
    assert "recursion" in found
    assert sys.getrecursionlimit() == before


def test_the_order_in_which_builtins_stand_means_nothing(guard):
    before = builtins.len
    del builtins.len
    builtins.len = before
    assert guard.repair() == ()
    del builtins.len
    assert guard.repair() == ("builtins.len",)
    assert builtins.len is before


def test_a_value_under_another_name_does_not_stand_in_for_one_that_is_gone(guard):
    names = [*vars(builtins)]
    of_prompt = {"exit", "quit", "help", "copyright", "credits", "license", "display"}
    kept = {name: vars(builtins).pop(name) for name in names if name in of_prompt}
    last = [*vars(builtins)][-1]
    assert guard.repair() == ()
    value = vars(builtins)[last]
    builtins.by_another_name = value
    delattr(builtins, last)
    found = guard.repair()
    vars(builtins).update(kept)
    del builtins.by_another_name
    assert found == (f"builtins.{last}",)
    assert vars(builtins)[last] is value
