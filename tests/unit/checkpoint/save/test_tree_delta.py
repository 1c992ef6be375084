"""What ranks tell each other of large trees stays small, however many ranks there are."""

import numpy as np
import pytest
from fakes.council import save_on_ranks
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.checkpoint.save.contents import take
from jupyter_dist.checkpoint.save.tree_delta import (
    find_differing,
    pack_difference,
    pack_digests,
    unpack_difference,
)
from jupyter_dist.checkpoint.storage.directory import latest
from jupyter_dist.checkpoint.values.arrays import Shard
from jupyter_dist.protocol.collective_size import MEETING_BYTES

LEAVES = 400


def told(tree):
    return take(tree).told


TREES = st.recursive(
    st.integers(0, 2) | st.sampled_from([np.zeros(2), np.ones(2), Shard(np.ones(3))]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner) | st.lists(inner, max_size=3),
)


@given(first=TREES, other=TREES)
def test_a_tree_is_the_same_when_only_its_difference_was_told(first, other):
    first, other = told(first), told(other)
    assert unpack_difference(pack_difference(other, first), first) == other


def test_the_same_tree_costs_nothing():
    tree = {"w": np.ones(3), "n": [1, 2.5]}
    assert pack_difference(told(tree), told(tree)) == b""


def test_a_leaf_more_costs_little_though_all_others_stand_elsewhere():
    leaves = {f"layer {number}": np.full(3, number) for number in range(1000)}
    packed = pack_difference(told({"seed": 3, **leaves}), told(leaves))
    assert len(packed) < 20_000


def test_digests_that_differ_are_found():
    one, two, three = ("0a" * 16, "0b" * 16, "0c" * 16)
    first = pack_digests([one, two, three])
    assert find_differing(pack_digests([one, three, three]), first, 3) == [1]
    assert find_differing(first, first, 3) == []
    assert find_differing(b"", b"", 0) == []


@pytest.mark.parametrize("kind", ["replicated", "sharded"])
def test_a_model_of_many_leaves_can_be_saved_on_many_ranks(tmp_path, kind):
    """As many bytes for each rank more as each before: not the more, the more there are."""

    def tree(rank):
        arrays = [
            np.full(4, number + (rank if kind == "sharded" else 0)) for number in range(LEAVES)
        ]
        return {
            "rank": rank,
            "seen": np.full(3, rank),
            "params": arrays if kind == "replicated" else [Shard(array) for array in arrays],
        }

    def told_bytes(world_size):
        hall, results = save_on_ranks(world_size, tmp_path / f"{world_size}", tree)
        assert {type(result).__name__ for result in results} == {"Saved"}
        assert latest(tmp_path / f"{world_size}").world_size == world_size
        return hall.told_bytes

    few, many = told_bytes(4), told_bytes(12)
    assert many < 5 * few
    assert many * (64 / 12) < MEETING_BYTES / 4
