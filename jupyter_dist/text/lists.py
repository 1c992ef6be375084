"""Words for lists of names, and sentences of which only the last one counts."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_SHOWN = 6
_LONGEST = 160


class Passing(str):
    """A sentence that holds while a cell runs; empty: what the last ones said holds no longer."""

    __slots__ = ()


class Momentary(Passing):
    """One that explains nothing about how the cell has ended."""

    __slots__ = ()


def group_pairs(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key, as what is to be told of them together."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def name_some(names: Sequence[str]) -> str:
    """Join names by commas; of a long list the first ones and how many more there are."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: _SHOWN - 1])} and {len(names) - _SHOWN + 1} more"


def name_by_reason(reasons: Mapping[str, str]) -> str:
    """Name things by the reason of each: `a, b: it has no GPU; c: CuPy is missing`."""
    groups = group_pairs((reason, name) for name, reason in reasons.items())
    return "; ".join(f"{name_some(names)}: {reason}" for reason, names in groups.items())


def name_push(names: Sequence[str]) -> str:
    """Return what a push is called: `push of a, b`."""
    return f"push of {name_some(names)}"


def name_pull(name: str) -> str:
    """Return what a pull is called: `pull of a`."""
    return f"pull of {name}"


def cut(text: str, longest: int) -> str:
    """Return a text of at most so many characters; the last one says that more followed."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def on_one_line(text: str) -> str:
    """Have someone else's reason on one line, and no longer than a sentence."""
    return cut(" ".join(text.split()).rstrip("."), _LONGEST)


def name_interrupt(text: str, way: str = "Ctrl-C") -> str:
    """Return a text for a place that has no button ■: `way` is what interrupts there."""
    return text.replace("■", way)
