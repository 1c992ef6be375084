"""What user code raises: what must pass through, and words for the rest. Pure.

Code that users can write (`__reduce__`, `__setstate__`, `__str__`, `__repr__`, a hook) may raise
anything, `SystemExit` included. Where this package calls such code, whatever it raises is an error
of that call.
"""

from collections.abc import Iterator
from typing import TypeGuard, TypeVar

_MOST_CAUSES = 32
_Kind = TypeVar("_Kind")


class BreakOff(BaseException):
    """Raised by a signal handler to end what runs; no error of the code that it interrupts."""


PASSED_ON = (KeyboardInterrupt, BreakOff)
"""Somebody wants the code to end: not to be turned into an error of that code."""
_NAME = type.__dict__["__name__"]
_CAUSE, _CONTEXT, _HIDES = (
    BaseException.__dict__[name] for name in ("__cause__", "__context__", "__suppress_context__")
)


def type_name(value: object) -> str:
    """Return the name of a value's type, whatever its class has made of `__name__`."""
    return str(_NAME.__get__(type(value)))


def is_of(value: object, kind: type[_Kind]) -> TypeGuard[_Kind]:
    """Return whether a value is of a type; unlike isinstance, without its own `__class__`."""
    return issubclass(type(value), kind)


def error_text(error: BaseException) -> str:
    """Return `str(error)`, or that this raised."""
    try:
        return str.__str__(str(error))
    except BaseException as problem:  # noqa: BLE001  (a user's __str__ may raise anything)
        return f"<{type_name(error)}, whose str raised {type_name(problem)}>"


def name_error(error: BaseException) -> str:
    """Return an error as `ValueError: boom`; without words, as `ValueError`."""
    text = error_text(error)
    return f"{type_name(error)}: {text}" if text else type_name(error)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it comes from, the newest first; what `from None` hides not."""
    each: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if each is None:
            return
        yield each
        hidden = None if _HIDES.__get__(each) else _CONTEXT.__get__(each)
        cause = _CAUSE.__get__(each)
        each = hidden if cause is None else cause
