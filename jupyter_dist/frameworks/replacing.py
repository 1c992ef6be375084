"""Puts functions of ours in front of those of a framework."""

import functools
from collections.abc import Callable
from typing import Any


def replace(owner: Any, name: str, ours: Callable[..., Any]) -> bool:
    """Have `ours(theirs, …)` called in the place of a function; False: there is no such one."""
    theirs = getattr(owner, name, None)
    if theirs is None:
        return False
    setattr(owner, name, like(theirs, functools.partial(ours, theirs)))
    return True


def like(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return ours with the name, help and signature of theirs."""

    @functools.wraps(theirs)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    return wrapper
