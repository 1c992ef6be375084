"""What user code raises: what must pass through, and words for the rest. Pure.

Code that users can write (`__reduce__`, `__setstate__`, `__str__`, `__repr__`, a hook) may raise
anything, `SystemExit` included. Where this package calls such code, whatever it raises is an error
of that call.
"""


class BreakOff(BaseException):
    """Raised by a signal handler to end what runs; no error of the code that it interrupts."""


PASSED_ON = (KeyboardInterrupt, BreakOff)
"""Somebody wants the code to end: not to be turned into an error of that code."""
_NAME = type.__dict__["__name__"]


def type_name(value: object) -> str:
    """Return the name of a value's type, whatever its class has made of `__name__`."""
    return str(_NAME.__get__(type(value)))


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
