"""What a rank itself runs with, and a cell may have damaged: builtins, the limit of recursion."""

import builtins
import ctypes
import sys
from typing import Any

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
"""Taken before ranks are forked, which share it."""
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
        self._changes = count_changes(self._space) if _ARE_COUNTED else None
        self._seen = -1 if self._changes is None else self._changes.value
        """As many when all was well; to look at each name takes long."""
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
        changes = -1 if self._changes is None else self._changes.value
        if changes == -1 or changes != self._seen:
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


def count_changes(space: dict[str, Any]) -> ctypes.c_uint64:
    """Return what counts the changes of this dict, where this Python does.

    To compare its values instead takes each of them into use: where many ranks take turns, hardly
    any of what that touches is in a cache.
    """
    return ctypes.c_uint64.from_address(id(space) + _AT_BYTE)


def _are_counted() -> bool:
    """Return whether this Python counts changes of a dict where we look."""
    space: dict[str, Any] = {"first": 1}
    changes = count_changes(space)
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


_ARE_COUNTED = sys.implementation.name == "cpython" and _are_counted()
