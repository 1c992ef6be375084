"""Puts what every rank writes to on few pages of memory, before ranks are forked.

Forked processes share a page until one of them writes to it (copy-on-write). CPython keeps the
reference count inside each object, so to call a function or to look up a name is to write. Code
objects and names lie scattered over the pages of all imported modules, mostly one used by ranks to
a page.

run_by_ranks.json lists those that a rank uses from its birth to the end of a cell. A list that is
out of date costs memory, and nothing else. tests/costs/run_by_ranks.py writes it.
"""

import sys
from functools import cached_property
from pathlib import Path
from types import FunctionType

import msgspec

PATH = Path(__file__).with_name("run_by_ranks.json")


class RunByRanks(msgspec.Struct, frozen=True):
    """What ranks use."""

    functions: dict[str, tuple[str, ...]]
    """Qualified names, by module."""
    names: tuple[str, ...]
    """Names in their code."""


def read_run_by_ranks() -> RunByRanks:
    """Return what is known of ranks."""
    return msgspec.json.decode(PATH.read_bytes(), type=RunByRanks)


def make_names_first(names: tuple[str, ...]) -> None:
    """Have modules that are imported from now on use these strings, while `names` is kept."""
    for name in names:
        sys.intern(name)


def gather_code(functions: dict[str, tuple[str, ...]]) -> None:
    """Have functions that are imported run copies of their code, made one after the other."""
    found = [
        function
        for module, names in functions.items()
        for name in names
        if (function := find_function(module, name)) is not None
    ]
    before = [function.__code__ for function in found]
    fillers = [code.replace() for code in before]  # of holes, in which copies would lie scattered
    for function in found:
        function.__code__ = function.__code__.replace()
    del before, fillers  # not earlier: the next copy would take their place


def find_function(module: str, qualified_name: str) -> FunctionType | None:
    """Return a function of an imported module, also one behind a property or a decorator.

    None: there is no such function.
    """
    found: object = sys.modules.get(module)
    for part in qualified_name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    match found:
        case property():
            found = found.fget
        case cached_property():
            found = found.func
        case classmethod() | staticmethod():
            found = found.__func__
    if isinstance(found, FunctionType):
        found = found.__dict__.get("__wrapped__", found)
    return found if isinstance(found, FunctionType) else None
