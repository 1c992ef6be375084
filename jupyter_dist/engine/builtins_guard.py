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
_any, _len, _map, _callable = any, len, map, callable
"""As they were: these may be what is damaged."""
_is_not = operator.is_not
_LEAST_DEPTH = 400
"""Calls that a rank needs for itself."""


class BuiltinsGuard:
    """Restores what a cell has damaged; made before user code runs."""

    def __init__(self) -> None:
        self._space = vars(builtins)
        known = {name: value for name, value in self._space.items() if callable(value)}
        self._own = {name: known[name] for name in known if name not in _OF_THE_PROMPT + _OF_USERS}
        self._of_users = {name: known[name] for name in _OF_USERS if name in known}
        self._depth = sys.getrecursionlimit()
        self._remember()

    def _remember(self) -> None:
        """Note what is there now, in its order up to the last name that is guarded."""
        names = [*self._space]
        while names[-1] not in self._own and names[-1] not in self._of_users:
            names.pop()
        self._last = names[-1]
        self._seen = tuple(self._space.values())[: len(names)]

    def repair(self) -> tuple[str, ...]:
        """Return the names of what was damaged and is restored; safe on any thread."""
        found = self._repair_names() if self._has_changed() else []
        if sys.getrecursionlimit() < _LEAST_DEPTH:
            sys.setrecursionlimit(self._depth)
            found.append("the recursion limit")
        return (*found,)

    def _has_changed(self) -> bool:
        """Return whether anything is new; without names, for to find 150 of them takes long."""
        space, seen = self._space, self._seen
        if _any(_map(_is_not, space.values(), seen)):
            return True
        return _len(space) < _len(seen) or space.get(self._last) is not seen[-1]

    def _repair_names(self) -> list[str]:
        space, found = self._space, []
        for name, value in self._own.items():
            if space.get(name) is not value:
                space[name] = value
                found.append(f"builtins.{name}")
        for name, value in self._of_users.items():
            if not _callable(space.get(name)):
                space[name] = value
                found.append(f"builtins.{name}")
        self._remember()
        return found
