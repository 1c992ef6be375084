"""What a rank itself runs with, and a cell may have damaged: builtins, the limit of recursion."""

import builtins
import ctypes
import sys
from itertools import count
from typing import Any, Protocol

_OF_USERS = (
    *("print", "open", "input", "breakpoint", "compile", "exec", "eval", "globals", "locals"),
    *("__import__", "__build_class__"),
)
"""May be replaced by other functions, as libraries do; the rank lives with that."""
_OF_THE_PROMPT = ("exit", "quit", "help", "copyright", "credits", "license", "display")
"""Come and go with IPython."""
_OWN = {
    name: value
    for name, value in vars(builtins).items()
    if callable(value) and name not in _OF_THE_PROMPT + _OF_USERS
}
"""Taken before ranks are forked: to take them is to write to their pages, which ranks share."""
_callable = callable
"""As it was: it may be what is damaged."""
_LEAST_DEPTH = 400
"""Calls that a rank needs for itself."""
_AT_BYTE = 24
"""Where CPython counts the changes of a dict (`ma_version_tag` of PEP 509), up to 3.13."""


class BuiltinsGuard:
    """Restores what a cell has damaged; made before user code runs."""

    def __init__(self) -> None:
        self._space = vars(builtins)
        self._of_users = {name: self._space[name] for name in _OF_USERS if name in self._space}
        self._depth = sys.getrecursionlimit()
        self._changes = count_changes(self._space)
        self._seen = self._changes.value
        """The number when all was well; to look at each name takes long."""
        self._untold: list[str] = []

    def take_repaired(self) -> tuple[str, ...]:
        """Repair, and return the names of all that was, once, on whatever thread."""
        self.repair()
        told = self._untold[:]
        del self._untold[: len(told)]  # another thread may have added to it
        return (*dict.fromkeys(told),)

    def repair(self) -> bool:
        """Restore what was damaged, and return whether anything was; safe on any thread."""
        found: list[str] = []
        if (changes := self._changes.value) != self._seen:
            found = self._repair_names()
            self._seen = -1 if found else changes  # another thread may do damage meanwhile
        if sys.getrecursionlimit() < _LEAST_DEPTH:
            sys.setrecursionlimit(self._depth)
            found.append("the recursion limit")
        self._untold.extend(found)
        return found != []

    def _repair_names(self) -> list[str]:
        space, found = self._space, []
        for name, value in _OWN.items():
            if space.get(name) is not value:
                space[name] = value
                found.append(f"builtins.{name}")
        for name, value in self._of_users.items():
            if not _callable(space.get(name)):
                space[name] = value
                found.append(f"builtins.{name}")
        return found


class Changes(Protocol):
    """Counts the changes of a dict."""

    @property
    def value(self) -> int:
        """Another number than before, once there has been a change."""


class Uncounted:
    """Stands where Python does not count: there may always have been a change."""

    def __init__(self) -> None:
        self._next = count().__next__  # the builtin of that name may be what is damaged

    @property
    def value(self) -> int:
        """Another number each time."""
        return self._next()


def count_changes(space: dict[str, Any]) -> Changes:
    """Count the changes of this dict.

    To compare its values instead takes each of them into use: each rank of a host would copy the
    pages on which their references are counted.
    """
    return _where_counted(space) if _COUNTS else Uncounted()


def _where_counted(space: dict[str, Any]) -> Changes:
    return ctypes.c_uint64.from_address(id(space) + _AT_BYTE)


def _is_counted() -> bool:
    """Return whether this Python counts changes of a dict where we look."""
    space: dict[str, Any] = {"first": 1}
    changes = _where_counted(space)
    seen = [changes.value]
    for change in (
        lambda: space.update(second=2),
        lambda: space.update(second=3),
        lambda: space.pop("second"),
    ):
        change()
        seen.append(changes.value)
        if changes.value != seen[-1]:
            return False
    return len({*seen}) == len(seen)


_COUNTS = sys.implementation.name == "cpython" and _is_counted()
