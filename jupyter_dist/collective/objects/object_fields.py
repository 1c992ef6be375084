"""What an object is made of: its fields, or what pickle would take it apart into."""

import copyreg
import dataclasses
from collections.abc import Iterable, Iterator
from itertools import chain
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import msgspec

from jupyter_dist.collective.objects.long_values import join_digests
from jupyter_dist.model.ranks.user_errors import PASSED_ON

TEXT_LENGTH = 80

Fields = list[tuple[str, Any]]
Path = tuple[Any, ...]
"""Steps as nested pairs, innermost last: `((), "['layer']")`."""
Child = tuple[Path, Any]

_OWN_WAYS = ("__eq__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
_CODE_FIELDS = (
    "co_code",
    "co_consts",
    "co_names",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_flags",
    "co_varnames",
    "co_freevars",
)


def fields_of(value: Any) -> Fields | None:
    """Return the fields that make up an object with their values; None when only its class knows.

    They make up data classes of all kinds, functions, and objects that have attributes and no idea
    of their own of when they are equal.
    """
    if isinstance(value, FunctionType):
        return _function_fields(value)
    if isinstance(value, CodeType):
        return [(name, getattr(value, name)) for name in _CODE_FIELDS]
    if isinstance(value, MethodType):
        return [("__self__", value.__self__), ("__func__", value.__func__)]
    names = _declared_names(value)
    if names is not None:
        return [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    if any(
        getattr(type(value), name, None) is not getattr(object, name, None) for name in _OWN_WAYS
    ):
        return None
    reduced = _reduce(value)
    if reduced is None or reduced[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
        return None
    return _state_fields(reduced[2] if len(reduced) > 2 else None)


def parts_of(value: Any) -> list[Any] | None:
    """Take an object apart as pickle does; None when it cannot be."""
    reduced = _reduce(value)
    if reduced is None:
        return None
    make, arguments, *rest = reduced
    state, items, pairs = (*rest, None, None, None)[:3]
    # By its name: what it does is no part of the object.
    name = [getattr(make, "__module__", ""), getattr(make, "__qualname__", make)]
    return [name, arguments, state, list(items or ()), list(pairs or ())]


def _function_fields(value: FunctionType) -> Fields:
    cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    return [
        ("__qualname__", value.__qualname__),
        ("__code__", value.__code__),
        ("__defaults__", value.__defaults__),
        ("__kwdefaults__", value.__kwdefaults__),
        ("__closure__", cells),
    ]


def _is_filled(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _declared_names(value: Any) -> list[str] | None:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    attributes = getattr(type(value), "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


def _reduce(value: Any) -> tuple[Any, ...] | None:
    registered = copyreg.dispatch_table.get(type(value))
    try:
        reduced = registered(value) if registered is not None else value.__reduce_ex__(4)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001  (a user's __reduce__ may raise anything)
        return None
    return reduced if isinstance(reduced, tuple) else (reduced, ())


def _state_fields(state: Any) -> Fields | None:
    """Return attributes, those in slots too, in an order that does not depend on when they came."""
    own, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    found = {**(own or {}), **(slots or {})} if _is_names(own) and _is_names(slots) else None
    return None if found is None else sorted(found.items())


def _is_names(state: Any) -> bool:
    return state is None or (isinstance(state, dict) and all(isinstance(n, str) for n in state))


# --- places and types ------------------------------------------------------------------------


def write_path(path: Path) -> str:
    """Write a path as Python does: `['layer'][3].weight`."""
    steps = []
    while path:
        path, step = path
        steps.append(step)
    return "".join(reversed(steps))


def attributes_of(path: Path, fields: Fields) -> Iterator[Child]:
    """Yield the attributes of what is at a path, with theirs."""
    return (((path, f".{name}"), item) for name, item in fields)


def with_extra(
    path: Path, value: Any, told: bytes, children: Iterable[Child]
) -> tuple[bytes, Iterable[Child]]:
    """Add the attributes that an object of a subclass has."""
    found = getattr(value, "__dict__", None)
    if not found:
        return told, children
    extra = sorted(found.items())
    told = join_digests([told, *(name.encode() for name, _ in extra)])
    return told, chain(children, attributes_of(path, extra))


def kind_of(value: Any) -> str:
    """Name the type of a value."""
    kind = type(value)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def shorten(text: str) -> str:
    """Cut a text to a readable length."""
    return text if len(text) <= TEXT_LENGTH else f"{text[: TEXT_LENGTH - 1]}…"
