from types import ModuleType

import pytest

from jupyter_dist.engine.code.reloading import find_imports, order_of_reload, replace_parts


@pytest.mark.parametrize(
    ("changed", "order"),
    [
        ({"pkg.model"}, ["pkg.model", "pkg", "pkg.train"]),
        ({"pkg"}, ["pkg", "pkg.train"]),
        ({"pkg.data"}, ["pkg.data", "pkg.model", "pkg", "pkg.train"]),
        ({"alone"}, ["alone"]),
        ({"alone", "pkg.train"}, ["pkg.train", "alone"]),
        (set(), []),
    ],
)
def test_a_module_is_loaded_after_what_it_imports_and_with_whoever_imports_it(changed, order):
    graph = {
        "pkg": ["pkg.model"],
        "pkg.train": ["pkg"],
        "pkg.model": ["pkg.data"],
        "pkg.data": [],
        "alone": [],
    }
    assert order_of_reload(graph, changed) == order


def test_in_a_circle_each_module_is_loaded_once():
    graph = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["b"]}
    assert sorted(order_of_reload(graph, {"b"})) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pkg.inner.b", ["pkg", "pkg.inner", "pkg.inner.b"]),
        ("import pkg as p, os", ["pkg"]),
        ("from pkg import a, name", ["pkg.a", "pkg"]),
        ("from . import a", ["pkg.a"]),
        ("from .a import f as g", ["pkg.a"]),
        ("from .inner.b import *", ["pkg.inner.b"]),
        ("from .. import x", []),
        ("from ... import x", []),
        ("try:\n    from .a import f\nexcept ImportError:\n    pass", ["pkg.a"]),
        ("if True:\n    import pkg.a", ["pkg", "pkg.a"]),
        ("class C:\n    from .a import f", ["pkg.a"]),
        ("def f():\n    from .a import f", []),
        ("async def f():\n    import pkg", []),
    ],
)
def test_imports_are_read_from_the_source(source, found):
    modules = ["pkg", "pkg.a", "pkg.inner", "pkg.inner.b"]
    assert sorted(find_imports(source, "pkg", modules)) == sorted(found)


def load(module, source):
    """Load a module again as importlib does; gives what it had before."""
    before = dict(vars(module))
    exec(source, vars(module))
    return before


@pytest.fixture
def module():
    """A module that defines something of each kind."""
    module = ModuleType("mod")
    load(module, SOURCE)
    return module


SOURCE = """
def f(): pass
class C: pass
import functools
cached = functools.lru_cache(f)
rate = 0.5
table = {}
debug = False
name = "adam"
size = 4
nothing = None
"""


def test_names_that_lead_to_parts_of_the_old_module_lead_to_the_new_ones(module):
    space = {name: vars(module)[name] for name in ("f", "C", "cached", "rate", "table")}
    space |= {"g": module.f, "D": module.C, "mod": module, "functools": module.functools}
    replace_parts(module, load(module, SOURCE), [space])
    for name in ("f", "C", "cached", "rate", "table"):
        assert space[name] is vars(module)[name], name
    assert space["g"] is module.f
    assert space["D"] is module.C
    assert space["mod"] is module


def test_names_that_lead_elsewhere_are_left_alone(module):
    mine = {}
    space = {"f": print, "table": mine, "other": module.table, "rate": 0.25}
    before = dict(space)
    replace_parts(module, load(module, SOURCE), [space])
    assert space == before
    assert space["table"] is mine
    assert space["other"] is not module.table


def test_numbers_and_strings_may_be_the_users_own(module):
    space = {"debug": False, "name": "adam", "size": 4, "nothing": None}
    changed = SOURCE.replace("False", "True").replace("adam", "sgd").replace("4", "5")
    replace_parts(module, load(module, changed.replace("None", "1")), [space])
    assert space == {"debug": False, "name": "adam", "size": 4, "nothing": None}


def test_the_modules_own_names_and_those_that_are_gone_stay(module):
    old = module.f
    space = {"f": old}
    before = load(module, "x = 1")
    replace_parts(module, before, [space, vars(module)])
    assert space["f"] is old
    assert module.f is old
