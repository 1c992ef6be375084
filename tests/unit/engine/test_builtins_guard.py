import builtins
import sys

import pytest

from jupyter_dist.engine import builtins_guard
from jupyter_dist.engine.builtins_guard import BuiltinsGuard, count_changes


@pytest.fixture(params=[True, False], ids=["counted", "not-counted"])
def guard(request, monkeypatch):
    """A guard where Python counts the changes of a dict, if this one does; and where it does not."""
    monkeypatch.setattr(
        builtins_guard, "_ARE_COUNTED", request.param and builtins_guard._ARE_COUNTED
    )
    guard, before = BuiltinsGuard(), dict(vars(builtins))
    depth = sys.getrecursionlimit()
    assert guard.take_repaired() == ()
    yield guard
    vars(builtins).update(before)
    sys.setrecursionlimit(depth)


@pytest.mark.parametrize(
    "name", ["len", "isinstance", "str", "Exception", "next", "dict", "print", "open"]
)
def test_what_is_no_function_any_more_is_restored(guard, name):
    before = getattr(builtins, name)
    setattr(builtins, name, None)
    assert guard.take_repaired() == (f"builtins.{name}",)
    assert getattr(builtins, name) is before
    assert guard.take_repaired() == ()


def test_what_is_gone_is_restored(guard):
    before = builtins.zip
    del builtins.zip
    assert guard.take_repaired() == ("builtins.zip",)
    assert builtins.zip is before


def test_what_libraries_replace_stays(guard):
    builtins.print = mine = lambda *_: None
    builtins.profile = mine
    assert guard.take_repaired() == ()
    assert builtins.print is mine
    del builtins.profile


def test_a_rank_keeps_room_for_its_own_calls(guard):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(390)
    (found,) = guard.take_repaired()
    assert "recursion" in found
    assert sys.getrecursionlimit() == before


def test_what_is_replaced_again_is_restored_again(guard):
    before = builtins.len
    for damage in (None, 1, None):
        builtins.len = damage
        assert guard.take_repaired() == ("builtins.len",)
        assert builtins.len is before


def test_what_another_thread_has_repaired_is_told_by_the_one_that_tells(guard):
    for _ in range(2):
        builtins.zip = None
        assert guard.repair()
    assert not guard.repair()
    sys.setrecursionlimit(390)
    assert guard.repair()
    assert guard.take_repaired() == ("builtins.zip", "the recursion limit")
    assert guard.take_repaired() == ()


def test_what_a_rank_itself_has_replaced_is_what_comes_back(monkeypatch):
    monkeypatch.setattr(builtins, "input", mine := lambda *_: "")
    guard = BuiltinsGuard()
    builtins.input = None
    assert guard.take_repaired() == ("builtins.input",)
    assert builtins.input is mine


@pytest.mark.skipif(
    not builtins_guard._ARE_COUNTED, reason="this Python does not count changes of dicts"
)
def test_each_change_of_a_dict_counts_and_looks_do_not():
    space = {"kept": 1, "other": 2}
    changes = count_changes(space)
    for change in (
        lambda: space.update(new=None),
        lambda: space.update(new=1),
        lambda: space.pop("new"),
        space.popitem,
        space.clear,
    ):
        before = changes.value
        assert (space.get("kept"), len(space), changes.value) == (1, len(space), before)
        change()
        assert changes.value != before
