import sys
import types
from collections import OrderedDict
from itertools import count

import numpy as np
import pytest

from jupyter_dist.engine.observation.arrays import MOST_DIGESTED_BYTES
from jupyter_dist.engine.observation.values import MOST_ITEMS, MOST_PREVIEW, digest_of, preview_of
from jupyter_dist.engine.observation.variables import MOST_NAMES, list_names

TIMES = "\N{MULTIPLICATION SIGN}"


class Touchy:
    """An object that nothing may be asked of."""

    def _refuse(self, *_):
        raise AssertionError("code of a user was run")

    __repr__ = __str__ = __eq__ = __len__ = __iter__ = __sizeof__ = __getattr__ = _refuse
    __hash__ = None


def listed(namespace, hidden=None, **options):
    return {each.name: each for each in list_names(namespace, hidden or {}, **options).names}


def only(value, **options):
    return listed({"x": value}, **options)["x"]


def make_library(name):
    """A class as a library's, with what arrays have."""

    class Array:
        shape, dtype, nbytes, device = (2, 3), "float32", 24, "there"

        def __array__(self, *_, **__):
            raise AssertionError("its value was looked at")

    Array.__module__ = f"{name}.core"
    return Array


# --- which names ---


OWN = object()


@pytest.mark.parametrize(
    ("namespace", "patterns", "names"),
    [
        ({"z": 1, "a": 2, "m": 3}, (), ["z", "a", "m"]),
        ({"_": 1, "_x": 2, "sys": sys, "comm": OWN, "mine": 3}, (), ["mine"]),
        ({"comm": "mine"}, (), ["comm"]),
        ({"w1": 1, "w2": 2, "loss": 3, "W3": 4}, ("w*", "lo?s"), ["w1", "w2", "loss"]),
    ],
    ids=["in their order", "without those of others", "with the user's own", "by patterns"],
)
def test_names_are_listed(namespace, patterns, names):
    assert list(listed(namespace, {"comm": OWN}, patterns=patterns)) == names


def test_no_more_than_some_hundred_names_are_told():
    names = list_names({f"x{number}": number for number in range(MOST_NAMES + 7)}, {})
    assert (len(names.names), names.omitted) == (MOST_NAMES, 7)
    assert names.rss_bytes > 1 << 20


# --- what is told of values ---


def test_an_array_is_told_with_shape_type_and_size():
    info = only(np.zeros((4, 3), np.float32))
    told = "ndarray", f"4{TIMES}3", "float32", 48
    assert (info.type_name, info.shape, info.dtype, info.nbytes) == told


@pytest.mark.parametrize(
    ("value", "preview"),
    [
        (3, "3"),
        ("two\nlines", "'two\\nlines'"),
        ([1, 2.5, None], "[1, 2.5, None]"),
        ((1,), "(1,)"),
        ({"a": [1, {2}]}, "{'a': [1, {2}]}"),
        (frozenset(), "frozenset()"),
        (set(), "set()"),
        ({}, "{}"),
        (range(3), "range(0, 3)"),
        (list(range(9)), "[0, 1, 2, 3, 4, 5, …]"),
        (np.array([1, 2]), "[1, 2]"),
        (np.float64(2.5), "2.5"),
        (Touchy._refuse, "_refuse(self)"),
        (len, "len(…)"),
        ([Touchy()], "[<Touchy>]"),
        ([10**5000], "[int of 16610 bits]"),
    ],
)
def test_small_values_are_shown_on_one_line(value, preview):
    assert only(value).preview == preview


def test_long_values_are_cut():
    for value in ("x" * 10**7, [["x" * 50] * 5] * 5, b"y" * 10**6):
        assert len(only(value).preview) <= MOST_PREVIEW


def test_a_container_that_holds_itself_is_told():
    loop = []
    loop.append(loop)
    assert only(loop).preview.startswith("[[[")
    assert only(loop).digest == ""


def test_containers_tell_how_many_items_they_have():
    shapes = [only(value).shape for value in ([], [1], {"a": 1, "b": 2})]
    assert shapes == ["0 items", "1 item", "2 items"]


def test_nothing_is_asked_of_an_object_whose_class_may_do_as_it_likes():
    info = only(Touchy())
    assert (info.type_name, info.nbytes, info.preview, info.digest) == ("Touchy", -1, "", "")


def test_classes_that_only_look_like_plain_ones_are_not_looked_into():
    class Sneaky(dict):
        def __len__(self):
            raise AssertionError("code of a user was run")

    assert (only(Sneaky()).shape, only(Sneaky()).digest) == ("", "")
    assert only(OrderedDict(a=1)).digest == ""


def test_without_values_only_types_and_shapes_are_told():
    info = only(np.ones(2), with_values=False)
    assert (info.shape, info.preview, info.digest) == ("2", "", "")
    assert only([1], with_values=False).digest == ""


def test_after_its_time_limit_values_are_left_out():
    ticks = count(0, 0.4)
    names = listed({"a": 1, "b": 2, "c": 3, "d": 4}, clock=lambda: next(ticks))
    assert [bool(info.digest) for info in names.values()] == [True, True, False, False]
    assert all(info.type_name == "int" for info in names.values())


# --- arrays of libraries ---


@pytest.mark.parametrize("library", ["cupy", "jax", "tensorflow"])
def test_an_array_that_is_not_in_the_hosts_memory_is_told_without_its_value(library):
    kind = make_library(library)
    kind.device = types.SimpleNamespace(id=1)
    here = types.SimpleNamespace(platform="gpu", id=1)
    kind.devices = lambda _: [here]
    info = only(kind())
    assert (info.shape, info.dtype, info.nbytes, info.digest) == (f"2{TIMES}3", "float32", 24, "")
    assert info.device == {"cupy": "cuda:1", "jax": "gpu:1"}.get(library, "")


@pytest.mark.parametrize(("is_addressable", "is_ready"), [(False, True), (True, False)])
def test_a_jax_array_that_is_elsewhere_or_not_ready_yet_is_not_waited_for(is_addressable, is_ready):
    kind = make_library("jaxlib")
    kind.devices = lambda _: [types.SimpleNamespace(platform="cpu", id=0)]
    kind.is_fully_addressable = is_addressable
    kind.is_ready = lambda _: is_ready
    assert only(kind()).preview == ""


def test_an_array_that_refuses_to_tell_is_named_all_the_same():
    kind = make_library("jax")
    kind.nbytes = property(lambda _: 1 / 0)
    kind.devices = lambda _: 1 / 0
    info = only(kind())
    assert (info.type_name, info.shape, info.nbytes, info.digest) == ("Array", f"2{TIMES}3", -1, "")


def test_an_array_of_jax_is_told_with_its_value():
    jnp = pytest.importorskip("jax.numpy")
    info = only(jnp.arange(3).block_until_ready())
    assert (info.shape, info.dtype, info.preview) == ("3", "int32", "[0, 1, 2]")
    assert info.digest == only(np.arange(3, dtype=np.int32)).digest


def test_a_type_of_numpy_is_no_array():
    assert only(np.dtype("float32")).shape == ""
    assert only(np.float32).type_name == "type"


# --- digests ---


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        ([float("nan")], [float("nan")]),
        ([[1, (2, "three")], None], [[1, (2, "three")], None]),
        (2**100, 2**100),
    ],
)
def test_equal_values_have_one_digest(one, other):
    assert digest_of(one) == digest_of(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("a", b"a"),
        ([1, 2], [2, 1]),
        ([1, [2]], [[1], 2]),
        (["ab", "c"], ["a", "bc"]),
        ({"a": 1}, {"a": 2}),
        ({1: 2}, {2: 1}),
        ((1, 2), [1, 2]),
        (-1, 255),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros(4), np.zeros((2, 2))),
        (np.int64(1), np.int32(1)),
    ],
)
def test_different_values_have_different_digests(one, other):
    assert only(one).digest != only(other).digest
    assert only(one).digest
    assert only(other).digest


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()], dtype=object),
        np.zeros((4, 4))[:, ::2],
        np.ma.masked_array([1, 2], [True, False]),
        np.zeros(2, [("a", "i1"), ("b", "f8")]),
        np.zeros(MOST_DIGESTED_BYTES + 1, np.uint8),
        list(range(MOST_ITEMS + 1)),
        [[[[[[1]]]]]],
        "x" * (2 << 20),
        [Touchy()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_told_cheaply_and_surely_has_no_digest(value):
    assert only(value).digest == ""


def test_arrays_of_no_size_have_a_digest():
    assert only(np.zeros((0, 3))).digest not in ("", only(np.zeros((3, 0))).digest)


def test_functions_have_no_digest():
    assert (preview_of(only), digest_of(only)) == ("only(value)", "")
