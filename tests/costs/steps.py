"""What code of the package does, counted in steps: the same on any machine, at any load.

Calls alone do not tell how costs grow, since a loop that calls nothing counts as nothing. A step is
a line that is executed or a round of a loop (also of a comprehension), as the interpreter tells a
tracer of them, or an element that C code walks: in `set`, `frozenset`, `tuple`, `list`, `sorted`,
`sum`, `min` and `max`, and in what is done with a set that `set` has made. Not seen are copies and
comparisons of other containers (`{*ranks}`, `dict(...)`, keys of a dict), methods of theirs, `in` a
list of numbers, and what msgspec, protobuf and libzmq do: the bytes that go and come tell of that.
"""

import builtins
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sized
from typing import Self
from unittest import mock

PACKAGE = "jupyter_dist."
WALKERS = ("frozenset", "tuple", "list", "sorted", "sum", "min", "max")
SET_METHODS = {
    "__sub__": lambda left, _right: len(left),
    "__rsub__": lambda _left, right: len(right),
    "difference": lambda left, _right: len(left),
    **dict.fromkeys(
        ("__and__", "__rand__", "intersection", "isdisjoint"),
        lambda left, right: min(len(left), len(right)) if isinstance(right, Sized) else 0,
    ),
    **dict.fromkeys(
        ("__or__", "__ror__", "__xor__", "__rxor__", "union"),
        lambda left, right: len(left) + _len(right),
    ),
    **dict.fromkeys(("__ior__", "update"), lambda _left, right: _len(right)),
    **dict.fromkeys(
        ("__iand__", "__isub__", "difference_update", "intersection_update"),
        lambda left, right: min(len(left), _len(right)),
    ),
    # The lengths are compared first.
    "__ge__": lambda left, right: _len(right) if len(left) >= _len(right) else 0,
    "__le__": lambda left, right: len(left) if len(left) <= _len(right) else 0,
    "__eq__": lambda left, right: len(left) if len(left) == _len(right) else 0,
}
"""How many elements what is done with two sets walks at most; a generator counts on its own."""


def _len(value) -> int:
    return len(value) if isinstance(value, Sized) else 0


class Steps:
    """Counts the steps of this thread, by function, while it is entered."""

    def __init__(self) -> None:
        self._tracers: dict[int, tuple] = {}
        """By the id of a function's code: how it is traced, its steps so far, its name, the code."""
        self._walked: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._tracers.clear()
        self._walked.clear()
        self._before = sys.gettrace()
        sys.settrace(self._enter_function)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def by_function(self) -> Counter[str]:
        """Return how many steps were done in each function, as `roster: Roster.find`."""
        found = Counter(self._walked)
        for _, count, name, _code in self._tracers.values():
            if steps := count():
                found[name] += steps
        return found

    def _enter_function(self, frame, _event, _argument):
        code = frame.f_code
        known = self._tracers.get(id(code))
        if known is None:
            # By the module and not by the file: dataclasses write code that has none.
            is_ours = frame.f_globals.get("__name__", "").startswith(PACKAGE)
            known = (*(_tracer() if is_ours else (None, int)), _name(frame), code)
            self._tracers[id(code)] = known
        return known[0]

    def walk(self, elements: int) -> None:
        """Count what C code walks for the function of the package that has called it."""
        if elements and sys.gettrace() == self._enter_function:
            self._walked[_name(sys._getframe(2))] += elements


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Count nothing meanwhile: the other end of a wire does something."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def _tracer():
    steps = 0

    def trace(_frame, event, _argument):
        nonlocal steps
        if event == "line":
            steps += 1
        return trace

    return trace, lambda: steps


def _name(frame) -> str:
    module = frame.f_globals.get("__name__", "").rpartition(".")[2]
    function = frame.f_code.co_qualname.removeprefix("__create_fn__.<locals>.")
    return f"{module}: {function.partition('.<locals>')[0]}"


@contextlib.contextmanager
def counting_walks(steps: Steps) -> Iterator[None]:
    """Let the package use builtins that count what they walk; its sets stay such that do."""
    ours = [module for name, module in sys.modules.items() if name.startswith("jupyter_dist.")]
    with contextlib.ExitStack() as stack:
        for name, value in counting_builtins(steps).items():
            for module in ours:
                stack.enter_context(mock.patch.object(module, name, value, create=True))
        yield


def counting_builtins(steps: Steps) -> dict[str, object]:
    """Return what stands in for the builtins that walk what they are given."""

    def counting_method(method, elements):
        def call(self, other=()):
            steps.walk(elements(self, other))
            return method(self, other)

        return call

    def start(self, elements=()):
        steps.walk(_len(elements))
        set.__init__(self, elements)

    methods = {
        name: counting_method(getattr(set, name), elements)
        for name, elements in SET_METHODS.items()
    }
    counted_set = type("set", (set,), {**methods, "__init__": start, "__hash__": None})
    walkers = {name: _Walker(getattr(builtins, name), steps) for name in WALKERS}
    return walkers | {"set": counted_set}


class _Walker:
    """A builtin that counts what it walks; also where an annotation names it."""

    def __init__(self, builtin, steps: Steps) -> None:
        self._builtin, self._steps = builtin, steps

    def __call__(self, *arguments, **more):
        self._steps.walk(_len(arguments[0]) if len(arguments) == 1 else 0)
        return self._builtin(*arguments, **more)

    def __getitem__(self, parameters):
        return self._builtin[parameters]

    def __instancecheck__(self, value):
        return isinstance(value, self._builtin)

    def __or__(self, other):
        return self._builtin | other
