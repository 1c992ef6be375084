"""Options of the public methods, read by what their annotations say, before anything is done.

A value of another type would else be found where it is used: in another process, or never.
"""

import functools
import inspect
import operator
import os
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.sendable import check_sendable
from jupyter_dist.options.option import options_of

Checked = TypeVar("Checked")
_MOST = 1 << 63
_PLAIN = (str, int, float, bool, type(None))
_WITH_LIMITS = {str, int}
"""Values of these may be too large for a message, or be no text that can be sent."""
_WORDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    os.PathLike: "a path",
    Callable: "a function",
    Mapping: "a mapping of names to values",
}


class _Mismatch(Exception):
    """The value is of another type."""


def check_options(cls: type[Checked]) -> type[Checked]:
    """Let every public method of a class, inherited ones too, raise UsageError for wrong types.

    The error names the option, what was given, and what is accepted.
    """
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        function = found.__func__ if isinstance(found, classmethod) else found
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        checked = _check_calls(f"{cls.__name__}.{name}", function)
        setattr(cls, name, classmethod(checked) if isinstance(found, classmethod) else checked)
    return cls


def _check_calls(title: str, function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(function).parameters.values())[1:]  # without self or cls
    places = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    accepted: dict[str, Any] = {}
    several: type | None = None
    for each in parameters:
        if each.kind is each.VAR_KEYWORD:
            several = typing.get_args(each.annotation)[0]
            accepted |= typing.get_type_hints(several)
        elif not isinstance(each.annotation, str):  # what only a type checker can look up
            accepted[each.name] = each.annotation
    # Most values are of these very types, and cost nothing more than to see that.
    quick = {name: _quick_types(annotation) for name, annotation in accepted.items()}
    as_they_are = {name: types - _WITH_LIMITS for name, types in quick.items()}

    def read_option(name: str, value: Any) -> Any:
        if name not in accepted:
            return value
        if type(value) in quick[name]:
            _check_quickly(title, name, value)
            return value
        try:
            read = _read(value, accepted[name])
            _check_text(title, name, read)
            return read
        except _Mismatch:
            raise UsageError(
                f"{title}: {name} = {_show(value)} is not accepted, as it is of type "
                f"{type(value).__name__}. Accepted: {_describe(accepted[name])}."
            ) from None

    @functools.wraps(function)
    def call(owner: Any, *args: Any, **options: Any) -> Any:
        read = [
            value if type(value) in as_they_are.get(name, ()) else read_option(name, value)
            for name, value in zip(places, args, strict=False)
        ]
        options = {
            name: value if type(value) in as_they_are.get(name, ()) else read_option(name, value)
            for name, value in options.items()
        }
        return function(owner, *read, *args[len(read) :], **options)

    return _explain(call, several) if several is not None else call


def _explain(call: Callable[..., Any], several: type) -> Callable[..., Any]:
    """Show the fields behind `**options` where notebooks look: in the signature and the help."""
    signature = inspect.signature(call)
    shown = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    for name, kind in typing.get_type_hints(several).items():
        place = inspect.Parameter.KEYWORD_ONLY
        shown.append(inspect.Parameter(name, place, default=None, annotation=kind))
    said = {
        name: "; or ".join(each.text for each in marks) for name, _, marks in options_of(several)
    }
    lines = [f"    {name}: {text}." for name, text in said.items() if text]
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    call.__doc__ = "\n".join([inspect.getdoc(call) or "", "", "Options:", *lines])
    return call


def _quick_types(annotation: Any) -> frozenset[type]:
    kinds = {kind for kind in _choices(annotation) if kind in _PLAIN}
    return frozenset(kinds | {int}) if float in kinds else frozenset(kinds)


def _check_quickly(title: str, name: str, value: Any) -> None:
    """Raise UsageError for text and numbers that messages cannot carry."""
    if type(value) is int and not -_MOST <= value < _MOST:
        raise UsageError(f"{title}: {name} = {_show(value)} is not accepted: it has over 64 bits.")
    if type(value) is str and (not value.isascii() or "\0" in value):
        _check_text(title, name, value)


def _check_text(title: str, name: str, value: Any) -> None:
    """Raise UsageError for text that messages cannot carry; of a mapping its names are read."""
    told = list(value) if isinstance(value, Mapping) else value
    if isinstance(told, str | os.PathLike | list | tuple):
        check_sendable({f"{title}: {name}": told})


def _choices(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (type(None) if annotation is None else annotation,)


def _read(value: Any, annotation: Any) -> Any:
    """Return the value, a number of another library as Python's own; raises _Mismatch."""
    for choice in _choices(annotation):
        try:
            return _read_one(value, choice)
        except _Mismatch:
            continue
    raise _Mismatch


def _read_one(value: Any, kind: Any) -> Any:
    if kind is Any or kind is object:
        return value
    if kind in (int, float):
        return _read_number(value, kind)
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (Sequence, Iterable):
        return _read_several(value, origin, arguments[0])
    if origin is Mapping:
        _require(isinstance(value, Mapping))
        for key, each in value.items():
            _read(key, arguments[0])
            _read(each, arguments[1])
        return value
    if origin is Callable:
        _require(callable(value))
    elif getattr(origin, "_is_protocol", False) and origin is not os.PathLike:
        _require(all(hasattr(value, name) for name in vars(origin) if not name.startswith("_")))
    else:
        _require(isinstance(value, origin))
    return value


def _read_number(value: Any, kind: type) -> Any:
    _require(not isinstance(value, bool | str))
    try:
        return operator.index(value) if kind is int else float(value)
    except (TypeError, ValueError, OverflowError):
        raise _Mismatch from None


def _read_several(value: Any, origin: Any, kind: Any) -> Any:
    """Read a sequence, or whatever gives values one after the other, which is used up by that."""
    _require(isinstance(value, origin) and not isinstance(value, str | bytes | bytearray))
    if kind not in (*_PLAIN, str | os.PathLike[str]):
        return value  # who uses it looks at each
    return [_read(each, kind) for each in value]


def _require(is_so: bool) -> None:
    if not is_so:
        raise _Mismatch


def _describe(annotation: Any) -> str:
    found = [_describe_one(choice) for choice in _choices(annotation)]
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"


def _describe_one(kind: Any) -> str:
    origin = typing.get_origin(kind) or kind
    if origin in (Sequence, Iterable):
        return f"several, each {_describe(typing.get_args(kind)[0])}"
    return _WORDS.get(origin) or f"a {getattr(origin, '__name__', origin)}"


def _show(value: object) -> str:
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001  (it is the caller's)
        return "(a value without a representation)"
