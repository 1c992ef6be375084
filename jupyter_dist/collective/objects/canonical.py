"""Any Python value as a row of nodes: the same row on two ranks exactly when the values are equal.

A container is a node that says what it is and what it holds, followed by what is in it. So the
first node that differs between ranks has the same path on all of them.
"""

import math
import struct
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jupyter_dist.collective.objects.long_values import (
    ArrayContent,
    Content,
    TextContent,
    holds_objects,
    host_copy,
)
from jupyter_dist.collective.objects.long_values import join_digests as join
from jupyter_dist.collective.objects.object_fields import (
    TEXT_LENGTH,
    Child,
    Fields,
    Path,
    attributes_of,
    fields_of,
    kind_of,
    parts_of,
    shorten,
    with_extra,
    write_path,
)
from jupyter_dist.errors import TransferError
from jupyter_dist.model.ranks.user_errors import PASSED_ON, type_name
from jupyter_dist.protocol.objects import pack
from jupyter_dist.text.plurals import count_of

_LONG = 64
"""Text from so many characters on is compared piece by piece."""
_MOST_ITEMS = 1000


class Node(NamedTuple):
    """One part of a value."""

    path: Path
    kind: str
    """Its type, as `numpy.ndarray`."""
    told: bytes
    """What must be equal; of an array for example dtype and shape."""
    tell: Callable[[], str]
    """Writes it as people read it."""
    children: Iterable[Child] = ()
    list_items: Callable[[], Iterable[str]] = tuple
    """Writes what a container holds in no order: keys, names of fields."""
    content: Content | None = None
    """Elements that must be equal too."""
    opaque: Any = None
    """An object that may be equal even if this node is not: only `==` can tell."""

    @property
    def digest(self) -> bytes:
        """Return what tells this node from others."""
        if self.content is None:
            return join([self.kind.encode(), self.told])
        digest = self.content.digest(0, self.content.count)
        return join([self.kind.encode(), self.told, digest])

    @property
    def text(self) -> str:
        """Return it as people read it, cut to a readable length."""
        try:
            return shorten(self.tell())
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001  (a user's __repr__ may raise anything)
            return f"<its repr raised {type_name(error)}>"

    @property
    def items(self) -> tuple[str, ...]:
        """Return what it holds in no order; nothing when that is very much."""
        try:
            items = tuple(map(shorten, self.list_items()))
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001  (a user's __repr__ may raise anything)
            return ()
        return items if len(items) <= _MOST_ITEMS else ()


Look = Callable[[Path, Any], Node]


def walk(value: Any, salt: bytes = b"") -> Iterator[Node]:
    """Yield the nodes of a value, each before what is in it.

    With a `salt` of a rank's own, NaN differs from NaN. Raises TransferError for what cannot be
    looked into nor pickled, or is nested too deeply.
    """
    walker = _Walk(salt)
    try:
        yield from walker.visit(value)
    except RecursionError as error:
        raise TransferError(
            f"'value{write_path(walker.path)}' cannot be compared: it is nested too deeply for "
            f"Python's recursion limit ({sys.getrecursionlimit()}). Compare flatter data, or raise "
            "the limit with sys.setrecursionlimit on every rank."
        ) from error


class _Walk:
    """Looks at one value after the other and says what it is."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self.path: Path = ()
        """Of the present part, or of the one that it is digested for."""
        self._digesting = 0
        self._inside: list[Any] = []
        """Containers that the present value is in, outermost first."""
        # An order that counts: numpy's float64 is a float, and an IntEnum an int.
        self._ways: tuple[tuple[Any, Look], ...] = (
            ((type(None), type(...), type(NotImplemented)), self._singleton),
            (Enum, self._member),
            (np.generic, self._numpy_scalar),
            (int, self._int),  # a bool as well: its type tells
            (float, self._float),
            (complex, self._complex),
            ((str, bytes, bytearray), self._text),
            ((list, tuple, deque), self._sequence),
            ((dict, MappingProxyType), self._mapping),
            ((set, frozenset), self._set),
            (type, self._class),
        )
        self._looks: dict[type, Look] = {}

    def visit(self, value: Any) -> Iterator[Node]:
        """Yield the nodes of a value that is in those containers."""
        pending: list[Iterator[Child]] = [iter([((), value)])]
        while pending:
            child = next(pending[-1], None)
            if child is None:
                pending.pop()
                if pending:
                    self._inside.pop()
                continue
            path, found = child
            if not self._digesting:
                self.path = path
            node = self._find_cycle(path, found) or self._look(path, found)
            yield node
            if node.children:
                self._inside.append(found)
                pending.append(iter(node.children))

    def _find_cycle(self, path: Path, value: Any) -> Node | None:
        for depth, outer in enumerate(self._inside):
            if outer is value:
                return Node(path, "cycle", str(depth).encode(), lambda: "a part that holds itself")
        return None

    def _look(self, path: Path, value: Any) -> Node:
        kind = type(value)
        look = self._looks.get(kind)
        if look is None:
            ways = (way for kinds, way in self._ways if isinstance(value, kinds))
            look = self._looks[kind] = next(ways, self._array_or_object)
        return look(path, value)

    # --- values without parts ----------------------------------------------------------------

    def _plain(self, path: Path, value: Any, told: bytes) -> Node:
        return Node(path, kind_of(value), told, lambda: repr(value))

    def _extended(self, path: Path, value: Any, told: bytes) -> Node:
        told, children = with_extra(path, value, told, ())
        return self._plain(path, value, told)._replace(children=children)

    def _singleton(self, path: Path, value: Any) -> Node:
        return self._plain(path, value, b"")

    def _member(self, path: Path, value: Enum) -> Node:
        # Flags of unknown bits have no name, and a name may mean something else on another rank.
        told = join([f"{value.name}".encode(), self._digest(value, [value.value])])
        return self._plain(path, value, told)

    def _class(self, path: Path, value: type) -> Node:
        return self._plain(path, value, f"{value.__module__}.{value.__qualname__}".encode())

    def _int(self, path: Path, value: int) -> Node:
        digits = hex(value)  # repr refuses numbers of very many digits
        tell = lambda: repr(value) if len(digits) < 1000 else digits  # noqa: E731
        return self._extended(path, value, digits.encode())._replace(tell=tell)

    def _float(self, path: Path, value: float) -> Node:
        return self._extended(path, value, self._float_bytes(value))

    def _complex(self, path: Path, value: complex) -> Node:
        parts = (self._float_bytes(value.real), self._float_bytes(value.imag))
        return self._extended(path, value, join(parts))

    def _float_bytes(self, value: float) -> bytes:
        value = float(value) + 0.0  # -0.0 becomes 0.0
        return b"nan" + self._salt if math.isnan(value) else struct.pack(">d", value)

    def _numpy_scalar(self, path: Path, value: Any) -> Node:
        array = np.asarray(value)
        if holds_objects(array.dtype):
            return self._object(path, value)
        told = join([str(array.dtype).encode(), ArrayContent(array, self._salt).digest(0, 1)])
        return self._plain(path, value, told)

    def _text(self, path: Path, value: str | bytes | bytearray) -> Node:
        plain = str(value) if isinstance(value, str) else bytes(value)
        if len(plain) < _LONG:
            packed = plain.encode("utf-8", "surrogatepass") if isinstance(plain, str) else plain
            return self._extended(path, value, packed)
        content = TextContent(plain)
        tell = lambda: f"{content.what}: {plain[:TEXT_LENGTH]!r}"  # noqa: E731
        node = self._extended(path, value, content.what.encode())
        return node._replace(tell=tell, content=content)

    # --- containers --------------------------------------------------------------------------

    def _sequence(self, path: Path, value: Any) -> Node:
        names = getattr(value, "_fields", None)
        if names and isinstance(value, tuple):
            return self._fields(path, value, list(zip(names, value, strict=True)))
        children = (((path, f"[{index}]"), item) for index, item in enumerate(value))
        return self._container(path, value, str(len(value)).encode(), children)

    def _mapping(self, path: Path, value: Any) -> Node:
        keys = list(value)
        if all(type(key) is str for key in keys):
            digests = {key: key.encode("utf-8", "surrogatepass") for key in keys}
        else:
            digests = {key: self._digest(value, [key]) for key in keys}
        if not isinstance(value, OrderedDict):  # of those the order counts
            keys.sort(key=digests.__getitem__)
        children = (((path, f"[{shorten(repr(key))}]"), value[key]) for key in keys)
        told = join(digests[key] for key in keys)
        return self._container(path, value, told, children)._replace(
            list_items=lambda: map(repr, keys)
        )

    def _set(self, path: Path, value: Any) -> Node:
        told = join(sorted(self._digest(value, [item]) for item in value))
        return self._container(path, value, told, ())._replace(list_items=lambda: map(repr, value))

    def _container(self, path: Path, value: Any, told: bytes, children: Iterable[Child]) -> Node:
        told, children = with_extra(path, value, told, children)
        tell = lambda: count_of(len(value), "item")  # noqa: E731
        return Node(path, kind_of(value), told, tell, children)

    def _fields(self, path: Path, value: Any, fields: Fields) -> Node:
        names = [name for name, _ in fields]
        told = join(name.encode() for name in names)
        children = attributes_of(path, fields) if fields else ()
        return Node(path, kind_of(value), told, lambda: repr(value), children, lambda: names)

    def _digest(self, owner: Any, parts: list[Any]) -> bytes:
        """Return a digest of what is in a value, where no path leads."""
        self._inside.append(owner)
        self._digesting += 1
        digest = join(node.digest for part in parts for node in self.visit(part))
        self._digesting -= 1
        self._inside.pop()
        return digest

    # --- arrays and objects ------------------------------------------------------------------

    def _array_or_object(self, path: Path, value: Any) -> Node:
        found = host_copy(value)
        if found is None:
            return self._object(path, value)
        if isinstance(value, np.ma.MaskedArray):
            parts = [("mask", np.ma.getmaskarray(value)), ("filled()", value.filled())]
            return self._fields(path, value, parts)
        told = f"{found.dtype} {found.array.shape}".encode()
        children: Iterable[Child] = ()
        if isinstance(value, np.ndarray):
            told, children = with_extra(path, value, told, children)
        if not holds_objects(found.array.dtype):
            content = ArrayContent(found.array, self._salt, found.text)
            return Node(path, found.library, told, lambda: found.text, children, content=content)
        items = zip(np.ndindex(found.array.shape), found.array.reshape(-1).tolist(), strict=True)
        elements = (((path, str(list(index))), item) for index, item in items)
        return Node(path, found.library, told, lambda: found.text, chain(elements, children))

    def _object(self, path: Path, value: Any) -> Node:
        fields = fields_of(value)
        if fields is not None:
            return self._fields(path, value, fields)
        parts = parts_of(value)
        if parts is not None:
            told = self._digest(value, parts)
        else:
            told = join(bytes(frame) for frame in pack(f"value{write_path(path)}", value))
        return Node(path, kind_of(value), told, lambda: repr(value), opaque=value)
