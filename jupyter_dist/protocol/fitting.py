"""Makes a message that cannot be encoded, or would not be decoded, into one that can.

What user code has put into it follows the types that the reader expects: text is text, keys of maps
are text, anything goes by its `repr` where nothing else does. Numbers are not invented.
"""

from collections.abc import Mapping
from functools import cache
from numbers import Integral, Real
from typing import Any

import msgspec
from msgspec import inspect

from jupyter_dist.protocol.plain_values import Plainer, describe, plain_text

HEAD = ("rank", "cell_id", "request_id", "generation")
"""Fields by which the reader finds out whom a message concerns."""
_ACCEPTED: dict[type[inspect.Type], type | tuple[type, ...]] = {
    inspect.StrType: str,
    inspect.BoolType: bool,
    inspect.IntType: Integral,
    inspect.FloatType: Real,
    inspect.DictType: Mapping,
    **dict.fromkeys((inspect.VarTupleType, inspect.ListType, inspect.TupleType), (list, tuple)),
}
"""Of which types values are that a field takes as they are."""


def fit_struct(struct: msgspec.Struct) -> dict[str, Any] | list[Any]:
    """Return the fields of a message, and its tag, as its reader expects them."""
    config = struct.__struct_config__
    fields = {name: _fit(getattr(struct, name), kind) for name, kind in _kinds(type(struct))}
    tagged = {config.tag_field: config.tag, **fields} if config.tag_field else fields
    return list(tagged.values()) if config.array_like else tagged


def head_of(struct: msgspec.Struct) -> dict[str, Any]:
    """Return what a message is and whom it concerns, for one of which nothing else can be sent."""
    config = struct.__struct_config__
    fields = {name: getattr(struct, name, None) for name in HEAD}
    plain = {name: value for name, value in fields.items() if type(value) in (int, str)}
    return {str(config.tag_field): config.tag, **Plainer().copy(plain)}


@cache
def _kinds(struct: type[msgspec.Struct]) -> tuple[tuple[str, inspect.Type], ...]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return tuple((field.name, field.type) for field in info.fields)


def _fit(value: Any, kind: inspect.Type) -> Any:  # noqa: PLR0911  (one line for each kind)
    match kind:
        case inspect.AnyType():
            return Plainer().copy(value)
        case inspect.UnionType():
            return _fit_union(value, kind)
        case inspect.StructType():
            return fit_struct(value) if isinstance(value, msgspec.Struct) else value
        case inspect.StrType():
            return plain_text(value) if isinstance(value, str) else describe(value)
        case inspect.IntType() if isinstance(value, Integral):
            return int(value)
        case inspect.FloatType() if isinstance(value, Real):
            return float(value)
        case inspect.DictType():
            return _fit_dict(value, kind)
        case inspect.VarTupleType() | inspect.ListType():
            items = value if isinstance(value, list | tuple) else ()
            return [_fit(item, kind.item_type) for item in items]
        case inspect.TupleType() if isinstance(value, list | tuple):
            return [_fit(item, each) for item, each in zip(value, kind.item_types, strict=False)]
    return value


def _fit_dict(value: Any, kind: inspect.DictType) -> dict[Any, Any]:
    items = value.items() if isinstance(value, Mapping) else ()
    if isinstance(kind.key_type, inspect.StrType) and isinstance(kind.value_type, inspect.AnyType):
        plain = Plainer().copy(dict(items))
        return plain if isinstance(plain, dict) else {}
    return {_fit(key, kind.key_type): _fit(item, kind.value_type) for key, item in items}


def _fit_union(value: Any, kind: inspect.UnionType) -> Any:
    if isinstance(value, msgspec.Struct):
        return fit_struct(value)
    if value is None and kind.includes_none:
        return None
    others = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    accepted = (each for each in others if isinstance(value, _ACCEPTED.get(type(each), ())))
    fitting = next(accepted, others[0])
    return _fit(value, fitting)
