"""What ranks tell of their trees becomes one: who writes what, and what cannot be one."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.checkpoint.format.manifest import ArrayEntry
from jupyter_dist.checkpoint.format.number_types import array_bytes
from jupyter_dist.checkpoint.format.structure import build
from jupyter_dist.checkpoint.save.contents import take
from jupyter_dist.checkpoint.save.merging import CUT_BYTES, LeafReport, MergedLeaf, merge, share_out
from jupyter_dist.checkpoint.values.arrays import Shard
from jupyter_dist.errors import UsageError


def merged(*trees):
    """The trees of ranks as all of them see them."""
    return merge([take(tree).told for tree in trees])


def layouts(found):
    return {leaf.path: leaf.layout for leaf in found.leaves}


def test_what_seems_the_same_may_be_stored_once():
    found = merged(
        {"same": np.ones(3), "own": np.zeros(2), "n": 1, "m": 0, "o": {1}},
        {"same": np.ones(3), "own": np.ones(2), "n": 1, "m": 1, "o": {1}},
    )
    assert layouts(found) == {
        "['same']": "replicated",
        "['own']": "per_rank",
        "['n']": "replicated",
        "['m']": "per_rank",
        "['o']": "replicated",
    }
    assert len(found.structures) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros(3, "f4")),
        (np.zeros(3), np.zeros((3, 1))),
        (np.zeros(3), 0.0),
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        ("1", 1),
    ],
)
def test_what_differs_in_kind_is_stored_for_each(one, other):
    assert layouts(merged([one], [other])) == {"[0]": "per_rank"}


def test_trees_may_differ():
    first, second = {"a": 1, "b": [2, 3]}, {"b": [4], "c": 5}
    found = merged(first, second)
    assert [leaf.path for leaf in found.leaves] == ["['a']", "['b'][0]", "['b'][1]", "['c']"]
    for rank, tree in enumerate((first, second)):
        texts = [leaf.by_rank[rank] for leaf in found.leaves]
        again = build(found.structures[rank], lambda at, told=texts: int(told[at].entry.text))
        assert again == tree


def test_blocks_make_a_whole_in_rank_order():
    found = merged(*(Shard(np.zeros((2, length)), 1) for length in (3, 0, 2)))
    (leaf,) = found.leaves
    assert (leaf.layout, leaf.shape) == ("sharded", (2, 5))
    assert [boxes[0][1] for boxes in leaf.boxes] == [(0, 3), (3, 3), (3, 5)]


@pytest.mark.parametrize(
    ("trees", "said"),
    [
        ((Shard(np.zeros(2)), np.zeros(2)), "on rank 0, but not on rank 1"),
        ((Shard(np.zeros(2)), None), "on rank 0, but not on rank 1"),
        ((Shard(np.zeros(2)), Shard(np.zeros(2, "f4"))), "numpy float32[2] on rank 1"),
        ((Shard(np.zeros((2, 2))), Shard(np.zeros((2, 2)), 1)), "one sharding on all ranks"),
        ((Shard(np.zeros((2, 2))), Shard(np.zeros((2, 3)))), "along axis 0"),
    ],
)
def test_blocks_that_fit_no_whole_are_refused(trees, said):
    with pytest.raises(UsageError) as caught:
        merged(*([tree] for tree in trees))
    assert str(caught.value).startswith("[0] ")
    assert said in str(caught.value)


def replicated(shape):
    entry = ArrayEntry(dtype="int8", shape=shape, layout="replicated", library="numpy", pieces=())
    told = LeafReport(path="w", entry=entry, nbytes=array_bytes("int8", shape))
    return MergedLeaf("w", (told,) * 3, (0,) * 3, "replicated")


@given(
    st.lists(
        st.lists(st.sampled_from([0, 1, 2, 7, 1000, CUT_BYTES]), max_size=2).map(tuple), max_size=8
    )
)
def test_what_all_have_is_written_once_and_evenly(shapes):
    leaves = [replicated(shape) for shape in shapes]
    parts = share_out(leaves, 3)
    for index, shape in enumerate(shapes):
        boxes = sorted(part.box for own in parts for part in own if part.leaf == index)
        if shape:
            ends = [box[0] for box in boxes]
            assert [ends[0][0], ends[-1][1]] == [0, shape[0]]
            assert all(before[1] == after[0] for before, after in itertools.pairwise(ends))
        else:
            assert boxes == [()]
    loads = [sum(part.nbytes for part in own) for own in parts]
    largest = max((part.nbytes for own in parts for part in own), default=0)
    assert sum(loads) == sum(leaf.first.nbytes for leaf in leaves)
    assert max(loads) - min(loads) <= largest


def test_numbers_are_in_no_file():
    assert share_out(merged({"a": 1, "b": "x"}, {"a": 1, "b": "y"}).leaves, 2) == [[], []]
