"""A part of a variable for someone who asks for it, without running code of its class."""

import inspect
from collections.abc import Mapping
from types import MemberDescriptorType
from typing import Any

import numpy as np

from jupyter_dist.engine.observation.arrays import in_host_memory, library_of
from jupyter_dist.engine.observation.values import show
from jupyter_dist.engine.observation.variables import describe
from jupyter_dist.errors import UsageError
from jupyter_dist.options.value_place import Attribute, Index, read_place
from jupyter_dist.protocol.messages import NoAnswer, ValueShown
from jupyter_dist.text.lists import cut

MOST_CHARACTERS = 20_000
MOST_MEASURED_BYTES = 64 << 20
"""Of a larger array extremes are not looked for: that would take the cell's memory bandwidth."""
_EDGE_ITEMS, _MOST_ITEMS = 3, 200
_ABSENT = object()


class _Unreachable(Exception):
    """There is no such part, or only code of its class could give it."""


def show_place(
    namespace: Mapping[str, Any], place: str, most_characters: int
) -> ValueShown | NoAnswer:
    """Show what is at a place; why not, where there is nothing."""
    most = min(max(1, most_characters), MOST_CHARACTERS)
    try:
        wanted = read_place(place)
        value = namespace.get(wanted.name, _ABSENT)
        if value is _ABSENT:
            return NoAnswer(f"there is no {wanted.name!r}")
        for step in wanted.steps:
            value = (
                _attribute(value, step.name) if isinstance(step, Attribute) else _at(value, step)
            )
    except (UsageError, _Unreachable) as problem:
        return NoAnswer(str(problem))
    except (IndexError, KeyError, TypeError, ValueError) as problem:
        return NoAnswer(f"{place} is not there: {cut(str(problem), 200)}")
    return ValueShown(_tell(place, value, most))


def _attribute(value: Any, name: str) -> Any:
    found = inspect.getattr_static(value, name, _ABSENT)
    if found is _ABSENT:
        raise _Unreachable(f"{type(value).__name__} has no attribute {name!r}")
    if isinstance(found, MemberDescriptorType):  # of __slots__
        return found.__get__(value)
    if inspect.getattr_static(type(found), "__get__", None) is not None:
        raise _Unreachable(
            f"{name!r} is computed by code of {type(value).__name__}, which is not run"
        )
    return found


def _at(value: Any, step: Index) -> Any:
    if library := library_of(value):
        array = in_host_memory(value, library)
        if array is None:
            raise _Unreachable(
                f"this {type(value).__name__} does not lie in the host's memory as plain numbers"
            )
        return array[step.value]
    for kind in (list, tuple, str, bytes, range):
        if issubclass(type(value), kind):  # `isinstance` asks the object's own `__class__`
            return kind.__getitem__(value, _shorten(step.value, kind.__len__(value)))
    if issubclass(type(value), dict):
        found = dict.get(value, step.value, _ABSENT)
        if found is _ABSENT:
            raise _Unreachable(f"there is no key {step.value!r} among {len(value)}")
        return found
    raise _Unreachable(f"to index a {type(value).__name__} would run code of its class")


def _shorten(index: Any, length: int) -> Any:
    """Return a slice of no more items than are ever shown: a slice of a list is a copy."""
    if not isinstance(index, slice):
        return index
    chosen = range(*index.indices(length))[:MOST_CHARACTERS]
    if not chosen:
        return slice(0, 0)
    end = chosen[-1] + (1 if chosen.step > 0 else -1)
    return slice(chosen[0], end if end >= 0 else None, chosen.step)


def _tell(place: str, value: Any, most: int) -> str:
    library = library_of(value)
    array = in_host_memory(value, library) if library else None
    info = describe(place, value, with_value=False)
    facts = [info.type_name, info.dtype, info.shape, info.device and f"on {info.device}"]
    head = " ".join(fact for fact in facts if fact)
    if array is not None:
        return f"{head}{_measure(array)}\n{cut(_write(array), most)}"
    shown = show(value, most)
    return f"{head}\n{cut(shown, most)}" if shown else head


def _write(array: "np.ndarray[Any, Any]") -> str:
    return np.array2string(array, threshold=_MOST_ITEMS, edgeitems=_EDGE_ITEMS, separator=", ")


def _measure(array: "np.ndarray[Any, Any]") -> str:
    """Return the extremes of an array of numbers, and how many are none."""
    if array.size < 2 or array.nbytes > MOST_MEASURED_BYTES or array.dtype.kind not in "iuf":
        return ""
    odd = 0
    if array.dtype.kind == "f":
        is_number = np.isfinite(array)
        odd = array.size - int(np.count_nonzero(is_number))
        array = array[is_number] if odd else array
    extremes = f", {array.min()} to {array.max()}" if array.size else ""
    return f"{extremes}, {odd} not finite" if odd else extremes
