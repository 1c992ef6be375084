"""Values of plain types, on one line and as digests, without running anybody's code.

Only objects whose exact type is known are looked into: a `__repr__`, `__eq__` or `__len__` of a
user could take for ever, wait for other ranks or change something.
"""

import hashlib
import math
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

MOST_PREVIEW = 60
MOST_ITEMS = 1000
"""Containers with more, all levels together, have no digest."""
MOST_DEPTH = 4
MOST_TEXT = 1 << 20
"""Longer texts and bytes have no digest."""
_SHOWN_ITEMS = 6
MOST_SHOWN_ITEMS = 100
_MOST_DIGITS_BITS = 4096
PLAIN = (int, float, complex, str, bytes, bool, type(None))
CONTAINERS = (list, tuple, dict, set, frozenset)
MEASURED = (*PLAIN, *CONTAINERS, bytearray, range)


def is_one_of(value: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether the type is exactly one of these: subclasses may do as they like."""
    return type(value) in kinds


def cut(text: str) -> str:
    """Bring a text onto one line that is not too long."""
    line = " ".join(text.split()) if "\n" in text else text
    return line if len(line) <= MOST_PREVIEW else f"{line[: MOST_PREVIEW - 1]}…"


def preview_of(value: Any) -> str:
    """Show a plain value, or a container of such; empty for anything else."""
    if is_one_of(value, (*PLAIN, *CONTAINERS, range)):
        return cut(_show(value, 0))
    if isinstance(value, FunctionType):
        code = value.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return cut(f"{value.__name__}({', '.join(names)})")
    if isinstance(value, BuiltinFunctionType):
        return cut(f"{value.__name__}(…)")
    return ""


def show(value: Any, most_characters: int) -> str:
    """Show a plain value, or a container of such, at length; empty for anything else."""
    if not is_one_of(value, (*PLAIN, *CONTAINERS, range)):
        return ""
    return _show(value, 0, most_characters, MOST_SHOWN_ITEMS)


def _show(value: Any, depth: int, most: int = MOST_PREVIEW, items: int = _SHOWN_ITEMS) -> str:
    if is_one_of(value, (str, bytes)):
        short = value[:most]
        return repr(short) if len(short) == len(value) else f"{short!r}…"
    if type(value) is int and value.bit_length() > _MOST_DIGITS_BITS:
        return f"int of {value.bit_length()} bits"
    if is_one_of(value, (*PLAIN, range)):
        return repr(value)
    if not is_one_of(value, CONTAINERS):
        return f"<{type(value).__name__}>"
    if depth >= MOST_DEPTH:
        return "…"
    return _show_container(value, depth + 1, most, items)


def _show_container(value: Any, depth: int, most: int, items: int) -> str:
    some = _first_items(value, items)
    if type(value) is dict:
        pairs = [(_show(key, depth, most, items), item) for key, item in some]
        shown = [f"{key}: {_show(item, depth, most, items)}" for key, item in pairs]
    else:
        shown = [_show(item, depth, most, items) for item in some]
    if len(value) > len(some):
        shown.append("…")
    inside = ", ".join(shown)
    if type(value) is tuple:
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if type(value) is list:
        return f"[{inside}]"
    if type(value) is frozenset:
        return f"frozenset({{{inside}}})" if shown else "frozenset()"
    return f"{{{inside}}}" if shown or type(value) is dict else "set()"


def _first_items(value: Any, most: int) -> list[Any]:
    """Copy the first items; cells may change the container meanwhile."""
    if is_one_of(value, (list, tuple)):
        return list(value[:most])
    items: Iterable[Any] = value.items() if type(value) is dict else value
    return [item for item, _ in zip(items, range(most), strict=False)]


def size_of(value: Any) -> int:
    """Return the bytes that a plain value holds itself; -1 where only its class could tell."""
    return sys.getsizeof(value) if is_one_of(value, MEASURED) else -1


def digest_of(value: Any) -> str:
    """Return the digest of a plain value or a small container of such; empty: it has none."""
    digest = hashlib.blake2s()
    return digest.hexdigest() if _feed(digest, value, [MOST_ITEMS], 0) else ""


def _feed(digest: Any, value: Any, budget: list[int], depth: int) -> bool:
    """Add what a value is; False: it cannot be told. `budget` is what is left of the items."""
    budget[0] -= 1
    if budget[0] < 0 or depth > MOST_DEPTH:
        return False
    if is_one_of(value, PLAIN):
        return _feed_plain(digest, value)
    if not is_one_of(value, CONTAINERS) or len(value) > budget[0]:
        return False
    digest.update(f"{type(value).__name__} {len(value)};".encode())
    if is_one_of(value, (list, tuple)):
        return all(_feed(digest, item, budget, depth + 1) for item in tuple(value))
    # Their order is no part of what they are.
    parts = []
    for item in tuple(value.items() if type(value) is dict else value):
        part = hashlib.blake2s()
        if not _feed(part, item, budget, depth + (type(value) is not dict)):
            return False
        parts.append(part.digest())
    digest.update(b"".join(sorted(parts)))
    return True


def _feed_plain(digest: Any, value: Any) -> bool:
    kind = type(value).__name__
    data: bytes
    if is_one_of(value, (str, bytes)):
        if len(value) > MOST_TEXT:
            return False
        data = value if type(value) is bytes else value.encode(errors="surrogatepass")
    elif type(value) is int:
        if value.bit_length() > 8 * MOST_TEXT:
            return False
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    elif type(value) is float and math.isnan(value):
        data = b"nan"
    else:
        data = repr(value).encode()
    digest.update(f"{kind} {len(data)};".encode() + data)
    return True
