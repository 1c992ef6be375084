"""Which variables this rank has, told while a cell may be changing them."""

import resource
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any

import msgspec

from jupyter_dist.engine.observation.arrays import describe_array, library_of
from jupyter_dist.engine.observation.values import (
    CONTAINERS,
    digest_of,
    is_one_of,
    preview_of,
    size_of,
)
from jupyter_dist.model.ranks.variable_facts import NameInfo, RankNames
from jupyter_dist.text.plurals import count_of

MOST_NAMES = 500
TIME_LIMIT_S = 1.0
"""After this time values are not looked at any more."""
_ABSENT = object()


def list_names(
    namespace: dict[str, Any],
    hidden: dict[str, Any],
    patterns: Sequence[str] = (),
    with_values: bool = True,
    clock: Callable[[], float] = monotonic,
) -> RankNames:
    """List the variables; `hidden` has what the shell and this package have put there."""
    deadline_s = clock() + TIME_LIMIT_S

    def is_over() -> bool:
        return clock() >= deadline_s

    chosen = [name for name in list(namespace) if _is_wanted(name, patterns)]
    chosen = [name for name in chosen if not _is_of_shell(namespace.get(name), name, hidden)]
    infos = []
    # One value at a time: an array that someone else holds too cannot be resized in its place.
    for name in islice(chosen, MOST_NAMES):
        value = namespace.get(name, _ABSENT)
        if value is not _ABSENT:  # else the cell has deleted it meanwhile
            infos.append(describe(name, value, is_over, with_values and not is_over()))
    omitted = max(0, len(chosen) - MOST_NAMES)
    return RankNames(tuple(infos), omitted, _resident_bytes())


def _resident_bytes() -> int:
    """Return the memory that this process has, in bytes."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:  # not on Linux
        import psutil

        return int(psutil.Process().memory_info().rss)
    return int(pages) * resource.getpagesize()


def _is_wanted(name: object, patterns: Sequence[str]) -> bool:
    if type(name) is not str or name.startswith("_"):
        return False
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_of_shell(value: Any, name: str, hidden: dict[str, Any]) -> bool:
    return isinstance(value, ModuleType) or value is hidden.get(name, _ABSENT)


def describe(
    name: str, value: Any, is_over: Callable[[], bool] = bool, with_value: bool = True
) -> NameInfo:
    """Tell of one value what can be told without running its code or waiting for a device."""
    if library := library_of(value):
        return describe_array(name, value, library, is_over, with_value)
    type_name = type(value).__name__
    shape = count_of(len(value), "item") if is_one_of(value, CONTAINERS) else ""
    info = NameInfo(name=name, type_name=type_name, shape=shape, nbytes=size_of(value))
    if not with_value:
        return info
    try:
        return msgspec.structs.replace(info, preview=preview_of(value), digest=digest_of(value))
    except RuntimeError:  # the cell has changed it meanwhile
        return info
