"""What must end before the interpreter does."""

import atexit
from functools import cache
from typing import Protocol
from weakref import WeakSet


class Detachable(Protocol):
    """Something that has connections."""

    def detach(self) -> None:
        """Close them; harmless when they are closed."""


_connected: WeakSet[Detachable] = WeakSet()


def detach_at_exit(one: Detachable) -> None:
    """Close connections before the interpreter ends; libzmq must not be torn down under them."""
    _register()
    _connected.add(one)


@cache
def _register() -> None:
    """Do it with the first one: those who register later, as views, are called before us."""
    atexit.register(_detach_all)


def _detach_all() -> None:
    for one in list(_connected):
        one.detach()
