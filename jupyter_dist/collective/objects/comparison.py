"""Finds where the values of ranks differ, in few and small exchanges.

Equal values cost one exchange of digests. Else the place is narrowed down, a thousandth at a time,
to the first part that differs; that one alone is told to the others.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from jupyter_dist.collective.objects.canonical import Node, walk
from jupyter_dist.collective.objects.long_values import DIGEST_BYTES, join_digests
from jupyter_dist.collective.objects.object_fields import write_path
from jupyter_dist.errors import TransferError
from jupyter_dist.model.ranks.user_errors import PASSED_ON
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.objects import pack, unpack

AllGather = Callable[[Sequence[Frame]], Mapping[int, Sequence[Frame]]]
"""Gives what every rank brought, by rank, in the same order on all; all must call it."""

_PIECES = 1024
_MOST_PICKLED_BYTES = 1 << 20
_MOST_NAMED_ITEMS = 4
_PANDAS = "pandas"


class Difference(NamedTuple):
    """The first place where values differ."""

    path: str
    """As `['layer'][3].weight`; empty for the value itself."""
    about: str
    """What is there on all ranks, as `numpy.ndarray float32[3,4], first at [0, 2]`, or empty."""
    groups: list[tuple[tuple[int, ...], str]]
    """Which ranks have what, in the order of their first ranks."""


class Finding(msgspec.Struct, frozen=True):
    """What one rank has at the place where ranks differ."""

    path: str
    kind: str
    text: str
    told: bytes
    """Digest of everything but the elements."""
    digest: bytes
    items: tuple[str, ...] = ()
    count: int = -1
    """Number of its elements, or -1 when it has none."""
    pickled_bytes: int = -1
    """Of an object that `==` must judge, or -1."""


def find_difference(
    value: Any, rank: int, all_gather: AllGather, *, equal_nan: bool = True
) -> Difference | None:
    """Compare a value with those of the other ranks; all get the same answer.

    Raises TransferError, before anything is exchanged, for a value that cannot be compared.
    """
    return _Comparison(value, rank, all_gather, b"" if equal_nan else f"{rank}".encode()).run()


class _Comparison:
    def __init__(self, value: Any, rank: int, all_gather: AllGather, salt: bytes) -> None:
        self._value = value
        self._rank = rank
        self._all_gather = all_gather
        self._salt = salt

    def run(self) -> Difference | None:
        digests = b"".join(node.digest for node in walk(self._value, self._salt))
        own = join_digests([digests])
        told = self._all_gather([own, str(len(digests) // DIGEST_BYTES).encode()])
        if len({bytes(frames[0]) for frames in told.values()}) == 1:
            return None
        count = max(int(bytes(frames[1])) for frames in told.values())

        def digest(start: int, stop: int) -> bytes:
            return join_digests([digests[start * DIGEST_BYTES : stop * DIGEST_BYTES]])

        index = self._narrow(0, count, digest)
        while index is not None:
            found = self._judge(index)
            if found is not None:
                return found
            index = self._narrow(index + 1, count, digest)
        return None

    def _narrow(self, start: int, stop: int, digest: Callable[[int, int], bytes]) -> int | None:
        """Find the first of these elements that differs between ranks."""
        while start < stop:
            step = -(-(stop - start) // _PIECES)
            edges = range(start, stop, step)
            own = b"".join(digest(at, min(at + step, stop)) for at in edges)
            told = {bytes(frames[0]) for frames in self._all_gather([own]).values()}
            pieces = zip(*(_cut(digests) for digests in told), strict=True)
            at = next((at for at, row in zip(edges, pieces, strict=True) if len({*row}) > 1), None)
            if at is None or step == 1:
                return at
            start, stop = at, min(at + step, stop)
        return None

    # --- the first part that differs ---------------------------------------------------------

    def _judge(self, index: int) -> Difference | None:
        """Return how a part differs; None when `==` finds that it does not."""
        node = next(islice(walk(self._value, self._salt), index, None), None)
        pickled = _pickle(node)
        told = self._all_gather([msgspec.msgpack.encode(_describe(node, pickled))])
        findings = {
            rank: msgspec.msgpack.decode(frames[0], type=Finding) for rank, frames in told.items()
        }
        first = next(iter(findings.values()))
        if all(f.count >= 0 and f.told == first.told for f in findings.values()):
            return self._point_at_element(node)
        if all(f.pickled_bytes >= 0 and f.kind == first.kind for f in findings.values()):
            groups = self._ask_equality(pickled, findings)
            if len(set(groups.values())) == 1:
                return None
            return _tell(findings, groups)
        return _tell(findings, {rank: f.digest.hex() for rank, f in findings.items()})

    def _point_at_element(self, node: Node | None) -> Difference | None:
        assert node is not None
        assert node.content is not None
        content = node.content
        index = self._narrow(0, content.count, content.digest)
        if index is None:
            return None
        own = [content.digest(index, index + 1), content.text(index).encode("utf-8", "replace")]
        told = self._all_gather(own)
        keys = {rank: bytes(frames[0]).hex() for rank, frames in told.items()}
        texts = {rank: bytes(frames[1]).decode() for rank, frames in told.items()}
        about = f"{node.kind} {content.what}, first at {content.place(index)}"
        return Difference(write_path(node.path), about, _group(keys, texts))

    def _ask_equality(
        self, pickled: Sequence[Frame], findings: Mapping[int, Finding]
    ) -> dict[int, str]:
        """Let the first rank compare objects with `==`; give a name for each value."""
        by_digest = {rank: finding.digest.hex() for rank, finding in findings.items()}
        if sum(finding.pickled_bytes for finding in findings.values()) > _MOST_PICKLED_BYTES:
            return by_digest
        told = self._all_gather(pickled)
        verdict = {}
        if self._rank == min(told):
            verdict = _sort_by_equality(told, by_digest, equal_nan=not self._salt)
        answers = self._all_gather([msgspec.msgpack.encode(verdict)])
        return msgspec.msgpack.decode(answers[min(told)][0], type=dict[int, str])


def _cut(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]


def _pickle(node: Node | None) -> list[Frame]:
    """Pickle what only `==` can judge; nothing when that cannot be."""
    if node is None or node.opaque is None:
        return []
    try:
        return pack(write_path(node.path), node.opaque)
    except TransferError:
        return []


def _describe(node: Node | None, pickled: Sequence[Frame]) -> Finding:
    if node is None:
        return Finding("", "", "nothing", b"", b"")
    told = join_digests([node.kind.encode(), node.told])
    nbytes = sum(memoryview(frame).nbytes for frame in pickled) if pickled else -1
    count = node.content.count if node.content is not None else -1
    path = write_path(node.path)
    return Finding(path, node.kind, node.text, told, node.digest, node.items, count, nbytes)


def _tell(findings: Mapping[int, Finding], groups: Mapping[int, str]) -> Difference:
    """Return what each group has, with its type where types differ, and what only it holds."""
    kinds = {finding.kind for finding in findings.values()}
    common = set.intersection(*(set(finding.items) for finding in findings.values()))
    every = set().union(*(finding.items for finding in findings.values()))
    texts = {}
    for rank, finding in findings.items():
        text = finding.text
        if len(kinds) > 1:
            text = f"{finding.kind} {text}".lstrip()
        elif finding.items or every:
            text += _name_items("with", set(finding.items) - common)
            text += _name_items("without", every - set(finding.items))
        texts[rank] = text
    return Difference(findings[min(findings)].path, "", _group(groups, texts))


def _name_items(word: str, items: set[str]) -> str:
    if not items:
        return ""
    named = ", ".join(sorted(items)[:_MOST_NAMED_ITEMS])
    more = f" and {len(items) - _MOST_NAMED_ITEMS} more" if len(items) > _MOST_NAMED_ITEMS else ""
    return f" {word} {named}{more}"


def _group(keys: Mapping[int, str], texts: Mapping[int, str]) -> list[tuple[tuple[int, ...], str]]:
    groups: dict[str, list[int]] = {}
    for rank in sorted(keys):
        groups.setdefault(keys[rank], []).append(rank)
    return [(tuple(ranks), texts[ranks[0]]) for ranks in groups.values()]


def _sort_by_equality(
    pickled: Mapping[int, Sequence[Frame]], by_digest: Mapping[int, str], *, equal_nan: bool
) -> dict[int, str]:
    """Name for each rank the first digest whose object equals its own."""
    found: dict[str, Any] = {}
    names: dict[int, str] = {}
    try:
        for rank in sorted(pickled):
            value = unpack(f"value of rank {rank}", pickled[rank])
            same = (
                name
                for name, other in found.items()
                if _is_equal(other, value, equal_nan=equal_nan)
            )
            names[rank] = next(same, by_digest[rank])
            found.setdefault(names[rank], value)
    except TransferError:  # what cannot be rebuilt here is as different as its parts
        return dict(by_digest)
    return names


def _is_equal(one: Any, other: Any, *, equal_nan: bool) -> bool:
    """Ask objects whether they are equal; those of pandas answer element by element to `==`."""
    is_table = type(one).__module__.split(".")[0] == _PANDAS and hasattr(one, "equals")
    try:
        if is_table:
            return _is_equal_table(one, other, equal_nan=equal_nan)
        return _is_true(one == other, one, other)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001  (a user's __eq__ may raise anything)
        return False


def _is_true(verdict: Any, one: Any, other: Any) -> bool:
    """Read the answer to `==`: an array speaks only for objects of one shape, and if not empty."""
    if isinstance(verdict, bool | np.bool_):
        return bool(verdict)
    shape = tuple(getattr(verdict, "shape", ()))
    if not shape or 0 in shape or getattr(one, "shape", None) != getattr(other, "shape", None):
        return False
    return bool(verdict.all())


def _is_equal_table(one: Any, other: Any, *, equal_nan: bool) -> bool:
    if _digest(_labels(one)) != _digest(_labels(other)):
        return False
    if equal_nan:
        return bool(one.equals(other))  # where NaN is NaN
    if np.any(one.isna()):  # also what pandas alone has, as NA
        return False
    return _digest(_cells(one), b"one") == _digest(_cells(other), b"other")


def _labels(table: Any) -> list[Any]:
    """Return what `equals` of pandas leaves out: the types and names of a table and its axes."""
    kind = type(table)
    dtypes = list(table.dtypes) if hasattr(kind, "columns") else [getattr(table, "dtype", None)]
    # Asked of its class: a table also has an attribute for each column.
    names = [getattr(table, name) for name in ("name", "names") if hasattr(kind, name)]
    return [repr(dtypes), names, [_labels(axis) for axis in getattr(table, "axes", ())]]


def _cells(table: Any) -> list[Any]:
    return [part.to_numpy() for part in (table, *getattr(table, "axes", ()))]


def _digest(value: Any, salt: bytes = b"") -> bytes:
    return join_digests(node.digest for node in walk(value, salt))
