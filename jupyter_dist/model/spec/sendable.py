"""What can be told to other processes: Unicode text without NUL, and finite numbers."""

import math
import os
from collections.abc import Iterator, Mapping

import msgspec

from jupyter_dist.errors import UsageError

_MOST_SHOWN = 100
"""Characters of a text that is not accepted."""


def check_sendable(options: Mapping[str, object]) -> None:
    """Raise UsageError naming the first option, or part of one, that no message can carry."""
    for name, value in options.items():
        for where, problem in _find_problems(name, value):
            raise UsageError(f"{where} {problem}")


def _find_problems(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield where something in a value cannot be told, and why."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str | bytes | float):
        if why := _why_not(value):
            yield name, f"= {shorten(value)} is not accepted: {why}."
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _find_problems(f"{name}.{field}", getattr(value, field))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _find_problems(f"a name in {name}", key)
            yield from _find_problems(f"{name}[{key!r:.100}]", each)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _find_problems(f"{name}[{number}]", each)


def _why_not(value: str | bytes | float) -> str:
    """Return why no message can carry this; empty: it can."""
    if isinstance(value, bytes):
        return "it is bytes, and text is wanted"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a finite number is wanted"
    if "\0" in value:
        return "it has a NUL in it, with which no path, variable or word of a command can be given"
    try:
        value.encode()
    except UnicodeEncodeError:
        return (
            "it has bytes in it that are not UTF-8, and all processes of a cluster are told such "
            "texts as UTF-8. Rename what is called so, or give another one"
        )
    return ""


def shorten(value: object) -> str:
    """Return how Python writes this, in a length that can be read."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"
