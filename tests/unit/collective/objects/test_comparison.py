import array
import collections
import copy
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import itertools
import pathlib
import random
import re
import sys
import types
import uuid
from typing import NamedTuple

import attrs
import hypothesis.extra.numpy
import msgspec
import numpy as np
import pytest
from fakes.control import every, on_ranks
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.collective.objects import comparison
from jupyter_dist.collective.objects import long_values as contents
from jupyter_dist.collective.objects.comparison import find_difference
from jupyter_dist.errors import TransferError

NAN = float("nan")
OTHER_NAN = np.array([0x7FF0DEADBEEF0001], np.uint64).view(np.float64)


@dataclasses.dataclass
class Layer:
    weight: object
    name: str = "layer"


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: int


@attrs.define
class Attrs:
    x: object


class Struct(msgspec.Struct):
    x: object


class Point(NamedTuple):
    x: object
    y: object


class Plain:
    def __init__(self, **fields):
        vars(self).update(fields)


class WithSlots:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x


class Stateful:
    def __init__(self, x, cache):
        self.x, self.cache = x, cache

    def __getstate__(self):
        return {"x": self.x}


class Holder:
    """Keeps a value."""

    def __init__(self, value):
        self.value = value


class Rounded(Holder):
    """Equal to whatever rounds to the same."""

    def __eq__(self, other):
        return isinstance(other, Rounded) and round(self.value) == round(other.value)

    __hash__ = None


class Undecided(Holder):
    def __eq__(self, other):
        raise RuntimeError("cannot tell")

    __hash__ = None


class Unreadable(Holder):
    def __repr__(self):
        raise RuntimeError("no text")


Words, Tagged, Label, Code, Count, Length = (
    type(name, (kind,), {})
    for name, kind in (
        *(("Words", list), ("Tagged", np.ndarray), ("Label", str)),
        *(("Code", bytes), ("Count", int), ("Length", float)),
    )
)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.IntFlag):
    READ = 1


class Answering:
    """Answers `==` with whatever it was told to."""

    def __init__(self, number, answer):
        self.number, self.answer = number, answer

    def __eq__(self, other):
        return self.answer

    __hash__ = None


def with_unit(value, unit):
    value.unit = unit
    return value


def tagged(values, unit):
    found = np.array(values).view(Tagged)
    found.unit = unit
    return found


def compare(*values, equal_nan=True):
    """Compare one value per rank; give the difference that all ranks found."""
    rounds = []

    def call(control):
        def all_gather(frames):
            return control.meet(
                "objects", "all_gather", tuple(range(len(values))), frames, claim="", timeout_s=20.0
            )

        found = find_difference(values[control.rank], control.rank, all_gather, equal_nan=equal_nan)
        rounds.append(len(control.collectives))
        return found

    found = every(on_ranks(len(values), call))
    assert len({*rounds}) == 1, "ranks have not exchanged equally often"
    compare.rounds = rounds[0]
    return found


def texts(found):
    return [text for _, text in found.groups]


# --- equal ------------------------------------------------------------------------------------

SAME = [
    *(..., NotImplemented, 2**100_000, "long " * 100, bytes(1000), bytearray(b"bytes")),
    *(collections.deque([1, 2], maxlen=5), collections.OrderedDict(a=1, b=2)),
    *(collections.Counter("abca"), collections.defaultdict(list, a=[1])),
    *(types.MappingProxyType({"a": 1}), types.SimpleNamespace(a=1, b=[2])),
    *(Layer(np.ones(3)), Slotted(1), Attrs([1]), Struct({"a": 1}), Point(1, np.ones(2))),
    *(Plain(a=1, b=[np.ones(2)]), WithSlots(1), Stateful(1, 2), Unreadable(1)),
    *(Color.RED, Level.LOW, Words(["a", "b"]), int, Layer, len, np.add),
    *(functools.partial(int, base=2), functools.reduce, copy.copy, lambda x: x + 1, "text".upper),
    *(re.compile("a+", re.IGNORECASE), range(3), slice(1, None, 2), ValueError("a", 1)),
    *(dt.datetime(2024, 1, 2, tzinfo=dt.UTC), decimal.Decimal("1.50"), fractions.Fraction(1, 3)),
    *(uuid.UUID(int=5), pathlib.PurePosixPath("a/b"), array.array("d", [1.0, 2.0])),
    *(random.Random(7), np.random.default_rng(7), np.dtype("float32")),
    *(np.float32(1.5), np.int8(-3), np.str_("a"), np.datetime64("2024-01-02")),
    np.array([1, "a", None, [2]], dtype=object),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array([((1, 2),)], dtype=[("a", "f4", 2)]),
    np.array([1.5], np.longdouble),
    np.ma.array([1.0, 2.0], mask=[False, True]),
]


@pytest.mark.parametrize("value", SAME, ids=lambda value: f"{type(value).__name__}")
def test_a_value_equals_its_copy(value):
    is_code = isinstance(value, types.FunctionType | types.BuiltinFunctionType)
    copied = value if is_code or isinstance(value, types.MappingProxyType) else copy.deepcopy(value)
    assert compare(value, copied, value) is None
    assert compare.rounds == 1, "equal values cost one exchange"


PLAIN = st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=()))
ARRAYS = hypothesis.extra.numpy.arrays(
    hypothesis.extra.numpy.scalar_dtypes(),
    hypothesis.extra.numpy.array_shapes(min_dims=0, min_side=0, max_side=3),
)


@given(
    st.recursive(
        PLAIN | st.floats() | st.complex_numbers() | st.binary() | st.frozensets(PLAIN) | ARRAYS,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(PLAIN | st.tuples(PLAIN), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_a_value_of_plain_types_equals_its_copy(value):
    assert compare(value, copy.deepcopy(value)) is None


def nested_list():
    found = [1]
    found.append([found])
    return found


class Parent:
    """Its child knows it, and it says itself when it equals another."""

    def __init__(self, number):
        self.child = Plain(parent=self, number=number)

    def __eq__(self, other):
        return self.child.number == other.child.number

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (np.float32(0), np.float32(-0.0)),
        (0j, complex(-0.0, -0.0)),
        (NAN, -NAN),
        (NAN, float(OTHER_NAN[0])),
        (complex(1, NAN), complex(1, -NAN)),
        (np.float64(NAN), OTHER_NAN[0]),
        (np.array([NAN, 0.0]), np.array([OTHER_NAN[0], -0.0])),
        (np.array([NAN], np.float16), -np.array([NAN], np.float16)),
        (np.array([NAN], np.longdouble), -np.array([NAN], np.longdouble)),
        (np.array([complex(NAN, -0.0)]), np.array([complex(-NAN, 0.0)])),
        (np.array([(1, NAN)], "i4,f8"), np.array([(1, -NAN)], "i4,f8")),
        (np.array([NAN, "a"], object), np.array([-NAN, "a"], object)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: "a", "1": "b", None: 0}, {None: 0, "1": "b", 1: "a"}),
        ({1, 2, "c"}, {"c", 2, 1}),
        (collections.Counter("ab"), collections.Counter("ba")),
        (types.SimpleNamespace(a=1, b=2), types.SimpleNamespace(b=2, a=1)),
        (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
        (np.arange(10)[::2], np.arange(0, 10, 2)),
        (tagged([1, 2], "m"), tagged([1, 2], "m")),
        (np.arange(3)[::-1], np.array([2, 1, 0])),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([1.0, 9.0], mask=[0, 1])),
        (Stateful(1, "one cache"), Stateful(1, "another")),
        (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
        (nested_list(), nested_list()),
        (Parent(3), Parent(3)),
        (lambda x: x + 1, lambda x: x + 1),
    ],
    ids=itertools.count(),
)
def test_these_are_equal(one, other):
    assert compare(one, other) is None


def test_memory_that_belongs_to_no_number_does_not_count():
    dtype = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8]})
    noisy = np.frombuffer(bytes(range(16)), dtype).copy()
    clean = np.zeros(1, dtype)
    clean["a"], clean["b"] = noisy["a"], noisy["b"]
    assert noisy.tobytes() != clean.tobytes()
    assert compare(noisy, clean) is None
    one, other = np.full(2, 1.5, np.longdouble), np.full(2, 1.5, np.longdouble)
    if np.finfo(np.longdouble).nmant == 63:
        other.view(np.uint8)[15] ^= 0xFF
    assert compare(one, other) is None


def test_shared_and_separate_parts_are_equal():
    part = [1, 2]
    assert compare([part, part], [[1, 2], [1, 2]]) is None


# --- different --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "path", "told"),
    [
        (1, 2, "", ["1", "2"]),
        (1, 1.0, "", ["int 1", "float 1.0"]),
        (1, True, "", ["int 1", "bool True"]),
        (1, Level.LOW, "", ["int 1", f"{__name__}.Level <Level.LOW: 1>"]),
        (0, None, "", ["int 0", "NoneType None"]),
        ("a", b"a", "", ["str 'a'", "bytes b'a'"]),
        (b"a", bytearray(b"a"), "", ["bytes b'a'", "bytearray bytearray(b'a')"]),
        (1.0, 1.0 + 2**-52, "", ["1.0", "1.0000000000000002"]),
        (1.0, NAN, "", ["1.0", "nan"]),
        (complex(0, 1), complex(0, NAN), "", ["1j", "nanj"]),
        ([1, 2], [2, 1], "[0]", ["1", "2"]),
        ([1, 2], (1, 2), "", ["list 2 items", "tuple 2 items"]),
        ([1, 2], [1, 2, 3], "", ["2 items", "3 items"]),
        ([1, 2], Words([1, 2]), "", ["list 2 items", f"{__name__}.Words 2 items"]),
        ({"a": 1}, {"a": 2}, "['a']", ["1", "2"]),
        ({"a": 1}, {"b": 1}, "", ["1 item with 'a' without 'b'", "1 item with 'b' without 'a'"]),
        ({"a": 1}, {"a": 1, "b": 1}, "", ["1 item without 'b'", "2 items with 'b'"]),
        ({1: 0}, {1.0: 0}, "", ["1 item with 1 without 1.0", "1 item with 1.0 without 1"]),
        ({1, 2}, {1, 3}, "", ["2 items with 2 without 3", "2 items with 3 without 2"]),
        ({1}, frozenset({1}), "", ["set 1 item", "frozenset 1 item"]),
        (Layer(1), Layer(2), ".weight", ["1", "2"]),
        (Layer(1), Slotted(1), "", [f"{__name__}.Layer", f"{__name__}.Slotted"]),
        (Slotted(1), Slotted(2), ".x", ["1", "2"]),
        (Attrs(1), Attrs(2), ".x", ["1", "2"]),
        (Struct(1), Struct(2), ".x", ["1", "2"]),
        (Point(1, 2), Point(1, 3), ".y", ["2", "3"]),
        (Point(1, 2), (1, 2), "", [f"{__name__}.Point", "tuple 2 items"]),
        (Plain(a=1), Plain(a=2), ".a", ["1", "2"]),
        (Plain(a=1), Plain(b=1), "", ["with a without b", "with b without a"]),
        (WithSlots(1), WithSlots(2), ".x", ["1", "2"]),
        (Stateful(1, 0), Stateful(2, 0), ".x", ["1", "2"]),
        (Color.RED, Color.BLUE, "", ["Color.RED", "Color.BLUE"]),
        (Words("ab"), Words("ac"), "[1]", ["'b'", "'c'"]),
        (int, float, "", ["<class 'int'>", "<class 'float'>"]),
        (len, abs, "", ["<built-in function len>", "<built-in function abs>"]),
        (lambda x: x + 1, lambda x: x + 2, ".__code__.co_consts[1]", ["1", "2"]),
        (range(3), range(4), "", ["range(0, 3)", "range(0, 4)"]),
        (decimal.Decimal(1), decimal.Decimal(2), "", ["Decimal('1')", "Decimal('2')"]),
        (np.float32(1), np.float64(1), "", ["numpy.float32", "numpy.float64"]),
        (np.float32(1), np.float32(2), "", [repr(np.float32(1)), repr(np.float32(2))]),
        (np.int64(1), 1, "", ["numpy.int64", "int 1"]),
        (np.float64(1), 1.0, "", ["numpy.float64", "float 1.0"]),
        (np.array(1), np.int64(1), "", ["numpy.ndarray int64[]", "numpy.int64"]),
        (np.ones(3, "f4"), np.ones(3, "f8"), "", ["float32[3]", "float64[3]"]),
        (np.ones(2, "<f4"), np.ones(2, ">f4"), "", ["float32[2]", ">f4[2]"]),
        (np.ones((2, 3)), np.ones((3, 2)), "", ["float64[2,3]", "float64[3,2]"]),
        (np.ones((0, 3)), np.ones((0, 2)), "", ["float64[0,3]", "float64[0,2]"]),
        (np.array(["a"]), np.array(["ab"]), "", ["str32[1]", "str64[1]"]),
        (np.array([1, "a"], object), np.array([1, "b"], object), "[1]", ["'a'", "'b'"]),
        (np.array([[1, 2]], object), np.array([[1, 3]], object), "[0, 1]", ["2", "3"]),
        (np.ones(2), tagged([1.0, 1.0], "m"), "", ["numpy.ndarray", f"{__name__}.Tagged"]),
        (tagged([1], "m"), tagged([1], "s"), ".unit", ["'m'", "'s'"]),
        (tagged([1], "m"), np.array([1]).view(Tagged), "", ["int64[1]", "int64[1]"]),
        (ValueError("a"), ValueError("b"), "", ["ValueError('a')", "ValueError('b')"]),
        (nested_list(), [1, [[1, []]]], "[1][0]", ["cycle a part that holds itself", "list"]),
        (
            collections.OrderedDict(a=1, b=2),
            collections.OrderedDict(b=2, a=1),
            "",
            ["2 items", "2 items"],
        ),
        (
            {"layers": [Layer(1), Layer({"w": [0, NAN]})]},
            {"layers": [Layer(1), Layer({"w": [0, 1.5]})]},
            "['layers'][1].weight['w'][1]",
            ["nan", "1.5"],
        ),
    ],
    ids=itertools.count(),
)
def test_these_differ(one, other, path, told):
    found = compare(one, other)
    assert found.path == path
    assert [ranks for ranks, _ in found.groups] == [(0,), (1,)]
    for expected, text in zip(told, texts(found), strict=True):
        assert expected in text


@pytest.mark.parametrize(
    ("one", "other", "about", "told"),
    [
        ([1, 2, 3], [1, 5, 6], "numpy.ndarray int64[3], first at [1]", ["2", "5"]),
        ([[1, 2], [3, 4.5]], [[1, 2], [3, 9.5]], "float64[2,2], first at [1, 1]", ["4.5", "9.5"]),
        ([1.0, NAN], [1.0, 0.0], "float64[2], first at [1]", ["nan", "0.0"]),
        ([True, False], [True, True], "bool[2], first at [1]", ["False", "True"]),
        (["ab", "c"], ["ab", "d"], "str64[2], first at [1]", ["'c'", "'d'"]),
        ([1j], [1 + 1j], "complex128[1], first at [0]", ["1j", "(1+1j)"]),
        (np.float32([0.1]), np.float32([0.2]), "float32[1], first at [0]", ["0.1", "0.2"]),
        (
            np.array([(1, 2.0), (3, 4.0)], "i4,f8"),
            np.array([(1, 2.0), (3, 5.0)], "i4,f8"),
            ", first at [1]",
            ["(3, 4.0)", "(3, 5.0)"],
        ),
    ],
)
def test_the_first_element_that_differs_is_told(one, other, about, told):
    found = compare({"a": np.array(one)}, {"a": np.array(other)})
    assert found.path == "['a']"
    assert about in found.about
    assert texts(found) == told


def test_objects_in_a_structured_array_are_compared_as_items():
    kinds = [("a", object), ("b", "f8")]

    def rows(text):
        return np.array([("ab", 1.0), (f"c{text}", 2.0)], kinds)

    assert compare(rows("d"), rows("d")) is None
    assert compare(rows("d")[0], rows("d")[0]) is None
    assert compare(rows("d")[1], rows("e")[1]) is not None
    found = compare(rows("d"), rows("e"))
    assert (found.path, texts(found)) == ("[1][0]", ["'cd'", "'ce'"])


def test_attributes_of_plain_values_of_a_subclass_are_compared():
    for make in (
        functools.partial(Label, "a"),
        functools.partial(Label, "a" * 100),
        functools.partial(Code, b"a"),
        functools.partial(Count, 1),
        functools.partial(Length, 1.5),
    ):
        assert compare(with_unit(make(), "m"), with_unit(make(), "m")) is None
        found = compare(with_unit(make(), "m"), with_unit(make(), "s"))
        assert (found.path, texts(found)) == (".unit", ["'m'", "'s'"])
        assert compare(with_unit(make(), "m"), make()) is not None


def test_members_of_enums_differ_by_their_value_whatever_their_name():
    assert compare(Access(8), Access(8)) is None
    assert compare(Access(8), Access(16)) is not None, "flags without a name"
    one, other = (enum.Enum("Shade", {"DARK": value}) for value in (1, 2))
    assert compare(one.DARK, other.DARK) is not None


def test_functions_differ_by_their_parameters_too():
    assert compare(lambda a, b: (a, b), lambda a, *, b: (a, b)) is not None
    assert compare(lambda a, b: (a, b), lambda a, b, /: (a, b)) is not None
    assert compare(lambda a: a, lambda b: b) is not None
    assert compare(lambda a: a, lambda *a: a) is not None


def test_the_place_in_a_large_array_is_found_in_few_exchanges(monkeypatch):
    monkeypatch.setattr(contents, "_PIECE", 1000)
    one = np.zeros(3_000_017)
    other = one.copy()
    other[2_999_999:] = 1
    found = compare(one, other)
    assert found.about.endswith("first at [2999999]")
    assert compare.rounds <= 8


def test_the_place_in_a_large_structure_is_found_in_few_exchanges(monkeypatch):
    monkeypatch.setattr(comparison, "_PIECES", 8)
    one = {"a": [Layer(k) for k in range(500)]}
    other = copy.deepcopy(one)
    other["a"][321].name = "other"
    found = compare(one, one, other)
    assert found.path == "['a'][321].name"
    assert found.groups == [((0, 1), "'layer'"), ((2,), "'other'")]
    assert compare.rounds <= 8


def test_the_place_in_a_long_text_is_found():
    text = "x" * 5000
    found = compare(text, text[:4000] + "äbc" + text[4003:])
    assert found.about == "str 5000 characters, first at [4000]"
    assert texts(found) == ["'xxxxxxxxxxxx'…", "'äbcxxxxxxxxx'…"]


def test_long_bytes_of_different_length_are_told_by_it():
    assert texts(compare(bytes(100), bytes(101)))[1].startswith(r"101 bytes: b'\x00")


def test_nan_differs_from_nan_on_request():
    for one in (NAN, complex(0, NAN), np.float32(NAN), np.array([1, NAN]), np.datetime64("NaT")):
        assert compare([one], [one]) is None
        assert compare([one], [one], equal_nan=False) is not None
    found = compare(np.array([1, NAN]), np.array([1, NAN]), equal_nan=False)
    assert (found.about, texts(found)) == (
        "numpy.ndarray float64[2], first at [1]",
        ["nan", "nan"],
    )
    assert compare([1.0, "nan"], [1.0, "nan"], equal_nan=False) is None


# --- ranks ------------------------------------------------------------------------------------


def test_ranks_are_grouped_by_value_in_the_order_of_their_first():
    assert compare("b", "a", "b", "c", "a").groups == [
        ((0, 2), "'b'"),
        ((1, 4), "'a'"),
        ((3,), "'c'"),
    ]


def test_ranks_are_grouped_by_the_element_not_by_the_array():
    arrays = [np.array([0, 1, k]) for k in (7, 8, 9)]
    arrays[2][1] = 5
    found = compare(*arrays)
    assert found.about.endswith("first at [1]")
    assert found.groups == [((0, 1), "1"), ((2,), "5")]


def test_one_rank_is_always_of_one_mind():
    assert compare({"a": NAN}, equal_nan=False) is None


def test_values_of_very_different_size_are_compared():
    found = compare([0] * 5000, [0])
    assert texts(found) == ["5,000 items", "1 item"]


def test_many_missing_keys_are_counted():
    found = compare(dict.fromkeys("abcdefg"), {})
    assert texts(found) == [
        "7 items with 'a', 'b', 'c', 'd' and 3 more",
        "0 items without 'a', 'b', 'c', 'd' and 3 more",
    ]


def test_long_texts_are_cut():
    found = compare(Layer("x" * 63, "y"), Plain(a="z" * 300))
    assert all(len(text) < 150 for text in texts(found))


# --- objects that only know themselves --------------------------------------------------------


def test_objects_with_an_idea_of_equality_are_asked():
    assert compare([Rounded(1.1), 5], [Rounded(0.9), 5], [Rounded(1.1), 5]) is None
    found = compare([Rounded(1.1), 5], [Rounded(0.9), 5], [Rounded(1.0), 6])
    assert (found.path, found.groups) == ("[1]", [((0, 1), "5"), ((2,), "6")])
    found = compare(Rounded(1.1), Rounded(2.9), Rounded(3.1))
    assert [ranks for ranks, _ in found.groups] == [(0,), (1, 2)]


def test_objects_that_cannot_tell_differ_when_their_parts_do():
    assert compare(Undecided(1), Undecided(1)) is None
    assert compare(Undecided(1), Undecided(2)) is not None


def test_objects_that_cannot_be_written_are_named_by_that():
    assert "RuntimeError" in texts(compare(Layer(Unreadable(1)), Plain()))[0]


def test_large_objects_are_judged_by_their_parts(monkeypatch):
    monkeypatch.setattr(comparison, "_MOST_PICKLED_BYTES", 10)
    assert compare(Rounded(1.1), Rounded(0.9)) is not None


def refusal(value):
    """Compare a value that cannot be compared; give the text of the error."""
    (error,) = on_ranks(1, lambda _control: find_difference(value, 0, pytest.fail))
    assert isinstance(error, TransferError)
    return str(error)


def test_what_cannot_be_taken_apart_is_refused_with_its_place():
    assert "value['a'][1]" in refusal({"a": [iter([]), (x for x in ())]})


class Table:
    """Like a series of pandas: `==` answers for each cell, and is no answer."""

    def __init__(self, cells, cache=None, name=None):
        self.cells, self.cache, self._name = cells, cache, name

    name = property(lambda self: self._name)
    dtype = property(lambda self: np.array(self.cells).dtype)

    def __eq__(self, other):
        return np.array([True, True])

    __hash__ = None

    def equals(self, other):
        return np.array_equal(self.cells, other.cells, equal_nan=True)

    def isna(self):
        return np.isnan(self.cells)

    def to_numpy(self):
        return np.array(self.cells)

    def __reduce__(self):
        return Table, (self.cells, self.cache, self._name)


def test_tables_of_pandas_are_asked_with_equals(monkeypatch):
    monkeypatch.setattr(comparison, "_PANDAS", Table.__module__.split(".")[0])
    assert compare(Table([1], "a"), Table([1], "b")) is None
    assert compare(Table([1]), Table([2])) is not None
    assert compare(Table([1]), Table([1.0])) is not None, "equals may ignore the type"
    assert compare(Table([1], name="a"), Table([1], name="b")) is not None


def test_nan_in_tables_of_pandas_differs_on_request(monkeypatch):
    monkeypatch.setattr(comparison, "_PANDAS", Table.__module__.split(".")[0])
    assert compare(Table([NAN], "a"), Table([NAN], "b")) is None
    assert compare(Table([NAN], "a"), Table([NAN], "b"), equal_nan=False) is not None
    assert compare(Table([1.0], "a"), Table([1.0], "b"), equal_nan=False) is None


def test_equals_is_asked_of_pandas_only():
    class Loose(Undecided):
        def equals(self, other):
            return True

    assert compare(Loose(1), Loose(2)) is not None


def test_real_tables_of_pandas_are_compared():
    pandas = pytest.importorskip("pandas")
    one = pandas.DataFrame({"name": [1.0, 2.0], "dtype": ["a", "b"]})
    cached = one.copy()
    assert cached["name"].sum() == 3.0, "pandas keeps a column that was looked at"
    assert compare(one, cached) is None
    assert compare(one, cached, equal_nan=False) is None
    assert compare(one, one.rename_axis("row")) is not None
    assert compare(one["name"], one["name"].rename("other")) is not None
    missing = one.assign(name=[1.0, NAN])
    assert compare(missing, missing.copy()) is None
    assert compare(missing, missing.copy(), equal_nan=False) is not None


@pytest.mark.parametrize(
    ("answer", "is_equal"),
    [
        (True, True),
        (np.True_, True),
        (np.array([True, True]), True),
        (np.array([True, False]), False),
        (np.array([]), False),
        (np.array(True), False),
        (NotImplemented, False),
        ("yes", False),
        (1, False),
        (None, False),
    ],
    ids=repr,
)
def test_only_a_clear_answer_to_equality_counts(answer, is_equal):
    assert (compare(Answering(1, answer), Answering(2, answer)) is None) is is_equal


def test_objects_nested_too_deeply_are_refused_with_their_place():
    deep = frozenset()
    for _ in range(sys.getrecursionlimit()):
        deep = frozenset([deep])
    text = refusal({"a": [1, deep]})
    assert "value['a'][1]" in text
    assert "sys.setrecursionlimit" in text


# --- arrays of other libraries ----------------------------------------------------------------


def test_arrays_of_torch_are_compared_by_their_content():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.bool):
        one, other = torch.zeros(2, 3).to(dtype), torch.zeros(2, 3).to(dtype)
        assert compare(one, other) is None
        other[1, 2] = 1
        found = compare(one, other)
        assert found.about.startswith(f"torch.Tensor {str(dtype).removeprefix('torch.')}[2,3]")
        assert found.about.endswith("first at [1, 2]")
    assert compare(torch.tensor([NAN, -0.0]), torch.tensor([-NAN, 0.0])) is None
    assert compare(torch.ones(2, requires_grad=True), torch.ones(2)) is None
    assert compare(torch.ones(2, 2).T, torch.ones(2, 2)) is None
    assert compare(torch.tensor([1j]).conj(), torch.tensor([-1j])) is None
    assert compare(torch.eye(2).to_sparse(), torch.eye(2).to_sparse()) is None


def test_a_model_of_torch_is_compared_by_its_parameters():
    torch = pytest.importorskip("torch")
    one, other = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    other.load_state_dict(one.state_dict())
    assert compare(one, other) is None
    assert compare(one.state_dict(), other.state_dict()) is None
    with torch.no_grad():
        other.weight[2, 1] += 1
    assert compare(one, other).path == "._parameters['weight']"
    assert compare(one.state_dict(), other.state_dict()).path == "['weight']"


def test_arrays_of_jax_are_compared_by_their_content():
    jax = pytest.importorskip("jax")
    for dtype in ("float32", "bfloat16", "float8_e5m2", "int4", "bool"):
        one = jax.numpy.zeros((2, 3), dtype)
        assert compare(one, jax.numpy.zeros((2, 3), dtype)) is None
        found = compare(one, one.at[1, 2].set(one.dtype.type(1)))
        assert found.about == f"jax.Array {dtype}[2,3], first at [1, 2]"
    assert compare(jax.random.key(1), jax.random.key(1)) is None
    assert compare(jax.random.key(1), jax.random.key(2)) is not None


def test_arrays_of_cupy_are_compared_by_their_content(monkeypatch):
    class FakeArray:
        """An array on a device."""

        def __init__(self, values):
            self._values = np.array(values)
            self.dtype = self._values.dtype

        def get(self):
            return self._values

    FakeArray.__qualname__ = "ndarray"
    monkeypatch.setitem(contents.sys.modules, "cupy", types.SimpleNamespace(ndarray=FakeArray))
    assert compare(FakeArray([1, 2]), FakeArray([1, 2])) is None
    found = compare(FakeArray([1, 2]), FakeArray([1, 3]))
    assert found.about == "cupy.ndarray int64[2], first at [1]"


def test_the_library_of_an_array_counts():
    torch = pytest.importorskip("torch")
    found = compare(torch.ones(2), np.ones(2, np.float32))
    assert texts(found) == ["torch.Tensor float32[2]", "numpy.ndarray float32[2]"]


def test_small_floats_are_compared_as_numbers():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
        assert compare(np.array([0.0, 1], dtype), np.array([-0.0, 1], dtype)) is None
        assert compare(np.array([0, 1], dtype), np.array([0, 2], dtype)) is not None
    assert (
        compare(np.array([NAN], ml_dtypes.bfloat16), -np.array([NAN], ml_dtypes.bfloat16)) is None
    )
    assert compare(ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(1)) is None


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no such text")
def test_text_of_any_length_in_numpy_is_compared():
    dtype = np.dtypes.StringDType()
    assert compare(np.array(["a", "b" * 100], dtype), np.array(["a", "b" * 100], dtype)) is None
    assert compare(np.array(["a", "b"], dtype), np.array(["a", "c"], dtype)).path == "[1]"
