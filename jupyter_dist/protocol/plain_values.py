"""Values of user programs as JSON has them: text keys, plain numbers, text for all else; bounded.

A MIME bundle travels as MessagePack, is decoded by the types of its message, and ends as JSON in a
notebook. What one of these cannot carry crosses as text.
"""

from base64 import b64encode
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Any

import msgspec

from jupyter_dist.model.ranks.user_errors import type_name

MOST_LEVELS = 50
MOST_CONTAINERS = 200_000
"""Lists and maps of one bundle; the same one in many places counts once for each of them."""
MOST_LEAVES = 5_000_000
MOST_CHARACTERS = 1 << 20
"""Of the `repr` that stands for a value of another type."""
_EXACT = (float, bool, type(None))
_INTEGERS = (-(2**63), 2**64 - 1)
_CUT = "…"


def plain_text(text: str) -> str:
    """Return an exact `str` that UTF-8 can carry: lone surrogates as backslash escapes."""
    if type(text) is str:
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return str.encode(text, "utf-8", "backslashreplace").decode()


def describe(value: object) -> str:
    """Return the `repr` of any object, also of one whose `repr` raises; cut where it is long."""
    try:
        text = repr(value)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # noqa: BLE001  (user code may raise anything, SystemExit too)
        return f"<{_type_name(value)}, whose repr raised {_type_name(problem)}>"
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}{_CUT}"
    return plain_text(text)


def _type_name(value: object) -> str:
    return plain_text(type_name(value))


def plain_bundle(data: object) -> dict[str, Any]:
    """Return a MIME bundle, or its metadata, as a notebook has it; empty for what is no mapping."""
    if not isinstance(data, Mapping):
        return {}
    plain = Plainer().copy(data)
    return plain if isinstance(plain, dict) else {"text/plain": plain}


def plain_id(value: object) -> str:
    """Return a display's id as text; a notebook accepts any JSON value."""
    if isinstance(value, str):
        return plain_text(value)
    return "" if value is None else str(Plainer().copy_key(value))


def to_text(message: object) -> str:
    """Write a message as JSON; what JSON cannot hold crosses as text."""
    try:
        return msgspec.json.encode(message).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
        plain = Plainer().copy(msgspec.to_builtins(message, enc_hook=describe))
        return msgspec.json.encode(plain).decode()


class Plainer:
    """Copies one value, and counts how much of it there is."""

    def __init__(self) -> None:
        self._containers_left = MOST_CONTAINERS
        self._leaves_left = MOST_LEAVES

    def copy(self, value: Any, level: int = 0) -> Any:
        """Return the value with nothing in it but None, bool, int, float, str, list and dict."""
        if type(value) is str:  # nearly all of them
            return plain_text(value)
        try:
            return self._copy_other(value, level)
        except Exception:  # noqa: BLE001  (classes of users may raise anything)
            return describe(value)

    def _copy_other(self, value: Any, level: int) -> Any:
        if isinstance(value, str):
            return plain_text(value)
        if value is None or isinstance(value, bool | Integral | Real):
            return _plain_number(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return b64encode(value).decode("ascii")
        is_mapping = isinstance(value, Mapping)
        if not (is_mapping or isinstance(value, list | tuple | set | frozenset)):
            return describe(value)
        self._containers_left -= 1
        if level >= MOST_LEVELS or self._containers_left < 0:
            return _CUT  # its own `repr` may be without end
        return self._copy_mapping(value, level) if is_mapping else self._copy_list(value, level)

    def copy_key(self, key: object) -> str:
        """Return the key of a map as JSON writes it."""
        if isinstance(key, str):
            return plain_text(key)
        if key is None or isinstance(key, bool):
            return {None: "null", True: "true", False: "false"}[key]
        if isinstance(key, bytes):
            return key.decode("utf-8", "backslashreplace")
        return describe(key)

    def _copy_mapping(self, value: Mapping[Any, Any], level: int) -> dict[str, Any]:
        items = self._take(list(value.items()))
        copy = {self.copy_key(key): self._copy_item(item, level) for key, item in items}
        return copy if len(items) == len(value) else {**copy, _CUT: _CUT}

    def _copy_list(self, value: Collection[Any], level: int) -> list[Any]:
        items = self._take(list(value))
        copy = [self._copy_item(item, level) for item in items]
        return copy if len(items) == len(value) else [*copy, _CUT]

    def _take(self, items: list[Any]) -> list[Any]:
        taken = items[: max(0, self._leaves_left)]
        self._leaves_left -= len(taken)
        return taken

    def _copy_item(self, item: Any, level: int) -> Any:
        return item if type(item) in _EXACT else self.copy(item, level + 1)


def _plain_number(value: Any) -> Any:
    """Return an exact number of 64 bits, or text for one that has more."""
    if value is None or value is True or value is False:
        return value
    if not isinstance(value, Integral):
        return float(value)
    number = int(value)
    return number if _INTEGERS[0] <= number <= _INTEGERS[1] else describe(number)
