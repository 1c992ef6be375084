"""What a rank itself runs with, and a cell may have damaged: builtins, the limit of recursion."""

import builtins
import operator
import sys

_OF_USERS = (
    *("print", "open", "input", "breakpoint", "compile", "exec", "eval", "globals", "locals"),
    *("__import__", "__build_class__"),
)
"""May be replaced by other functions, as libraries do; the rank lives with that."""
_OF_THE_PROMPT = ("exit", "quit", "help", "copyright", "credits", "license", "display")
"""Come and go with IPython."""
_any, _map, _zip, _callable, _KeyError = any, map, zip, callable, KeyError
"""As they were: these may be what is damaged."""
_is_not = operator.is_not
_LEAST_DEPTH = 400
"""Calls that a rank needs for itself."""


class BuiltinsGuard:
    """Restores what a cell has damaged; made before user code runs."""

    def __init__(self) -> None:
        self._space = vars(builtins)
        known = {name: value for name, value in self._space.items() if callable(value)}
        self._names = tuple(name for name in known if name not in (*_OF_USERS, *_OF_THE_PROMPT))
        self._values = tuple(known[name] for name in self._names)
        self._look_up = operator.itemgetter(*self._names)
        self._of_users = tuple((name, known[name]) for name in _OF_USERS if name in known)
        self._depth = sys.getrecursionlimit()

    def repair(self) -> tuple[str, ...]:
        """Return the names of what was damaged and is restored; safe on any thread."""
        space, found = self._space, []
        if self._is_damaged():
            for name, value in _zip(self._names, self._values, strict=True):
                if space.get(name) is not value:
                    space[name] = value
                    found.append(f"builtins.{name}")
        return (*found, *self._repair_others())

    def _is_damaged(self) -> bool:
        try:
            return _any(_map(_is_not, self._look_up(self._space), self._values))
        except _KeyError:  # one was deleted
            return True

    def _repair_others(self) -> list[str]:
        found = []
        for name, value in self._of_users:
            if not _callable(self._space.get(name)):
                self._space[name] = value
                found.append(f"builtins.{name}")
        if sys.getrecursionlimit() < _LEAST_DEPTH:
            sys.setrecursionlimit(self._depth)
            found.append("the recursion limit")
        return found
