"""Trees are taken apart, and built again from their containers."""

import collections
import threading
from typing import NamedTuple

import numpy as np
import pytest

from jupyter_dist.checkpoint.format.structure import State, build, find_paths
from jupyter_dist.checkpoint.values.arrays import Held, Shard
from jupyter_dist.checkpoint.values.tree import (
    MOST_DEPTH,
    Pickled,
    Plain,
    Unsaveable,
    pickle_value,
    take_apart,
    take_apart_each,
)


class Point(NamedTuple):
    x: object
    y: object


class Counter:
    def __init__(self):
        self.count = np.zeros(2)

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def rebuilt(tree):
    """What comes of a tree whose leaves are what they were found to be."""
    taken = take_apart(tree)
    return build(taken.structure, lambda number: taken.leaves[number].content)


def test_containers_come_back_as_they_were():
    tree = {"a": [1, (2.5, "x")], 3: None, True: {}, None: [], "p": Point(1, [2])}
    again = rebuilt(tree)
    assert again["a"] == [Plain(1), (Plain(2.5), Plain("x"))]
    assert list(again) == ["a", 3, True, None, "p"]
    assert (again[3], again[True], again[None]) == (None, {}, [])
    assert (again["p"].x, again["p"].y) == (Plain(1), [Plain(2)])
    assert type(again["p"]).__name__ == "Point"


def test_paths_say_where_leaves_stood():
    taken = take_apart({"p": [Point(1, 2)], 3: (np.ones(2),), "m": Counter()})
    paths = [leaf.path for leaf in taken.leaves]
    assert paths == ["['p'][0].x", "['p'][0].y", "[3][0]", "['m']['count']"]
    assert dict(find_paths(taken.structure)) == dict(enumerate(paths))


@pytest.mark.parametrize("value", [True, 7, -(2**70), 1.5, float("nan"), "text", ""])
def test_numbers_and_text_are_plain(value):
    (leaf,) = take_apart(value).leaves
    assert type(leaf.content) is Plain
    assert leaf.content.value is value


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        b"bytes",
        2 + 3j,
        {(1, 2): 3},
        {2**80: 1},
        {1.5: 1},
        {"\ud800": 1},
        collections.Counter("aab"),
        np.array(["text"]),
        np.array(["2026-11-22"], "M8[D]"),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        np.ma.masked_array([1, 2], [True, False]),
        pytest.param(np.array([object()]), id="objects"),
    ],
    ids=str,
)
def test_what_is_no_array_of_numbers_is_pickled_whole(value):
    (leaf,) = take_apart(value).leaves
    assert type(leaf.content) is Pickled


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3).T,
        np.arange(3, dtype=">f4"),
        np.float32(1.5),
        np.array(2, "c16"),
        np.zeros((0, 3), "f2"),
        np.arange(10)[::-2],
    ],
    ids=str,
)
def test_arrays_are_held_as_contiguous_numbers(array):
    (leaf,) = take_apart(array).leaves
    assert isinstance(leaf.content, Held)
    (block,) = leaf.content.blocks
    data = block.fetch()
    assert data.flags.c_contiguous
    assert data.dtype.isnative
    assert data.dtype.name == leaf.content.dtype
    assert np.array_equal(data, array)
    if block.is_view:
        assert np.shares_memory(data, array) or not array.size or not array.ndim


def test_objects_give_their_state():
    again = rebuilt(Counter())
    assert type(again) is State
    assert again.type_name.endswith("Counter")
    assert isinstance(again.value["count"], Held)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ([0, threading.Lock()], "[1] cannot be saved: _thread.lock: TypeError"),
        ({"w": Shard([1, 2])}, "['w'] cannot be saved: checkpoint.Shard got list"),
        (Shard(np.ones((2, 3)), 2), "the tree cannot be saved: checkpoint.Shard got axis=2"),
        (Shard(Shard(np.ones(3))), "checkpoint.Shard got Shard"),
    ],
)
def test_what_cannot_be_saved_is_named(tree, said):
    with pytest.raises(Unsaveable) as caught:
        take_apart(tree)
    assert said in str(caught.value)


def test_a_container_within_itself_is_refused():
    tree = []
    tree.append(tree)
    with pytest.raises(Unsaveable, match=f" {MOST_DEPTH} "):
        take_apart(tree)


def test_bad_values_of_many_are_left_out_with_the_reason():
    values = {"good": [1, 2], "bad": [1, threading.Lock()], "last": 3}
    taken, left_out = take_apart_each(values, skips_bad=True)
    assert [leaf.path for leaf in taken.leaves] == ["['good'][0]", "['good'][1]", "['last']"]
    assert build(taken.structure, lambda number: taken.leaves[number].content.value) == {
        "good": [1, 2],
        "last": 3,
    }
    assert list(left_out) == ["bad"]
    assert left_out["bad"].startswith("_thread.lock: TypeError: ")
    with pytest.raises(Unsaveable):
        take_apart_each(values)


class EndsTheInterpreter:
    def __reduce__(self):
        raise SystemExit(3)


def test_what_would_end_the_interpreter_cannot_be_saved():
    with pytest.raises(Unsaveable, match="SystemExit: 3"):
        pickle_value(EndsTheInterpreter(), "['x']")
