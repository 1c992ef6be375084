import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.collective import splitting
from jupyter_dist.collective.group import Group, Scope
from jupyter_dist.errors import UsageError

WORLD = tuple(range(4))


def split(*wishes, members=WORLD):
    """What each member gets, from pairs of color and key."""
    told = np.stack(
        [
            splitting.pack(splitting.check_wish(color, key, rank), f"10.0.0.{rank}:80")
            for rank, (color, key) in enumerate(wishes)
        ]
    )
    size = len(members)
    return [
        splitting.form(Group(rank, size, 5, "", members), Scope(), told) for rank in range(size)
    ]


@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 2), st.none() | st.integers(-3, 6)),
        min_size=1,
        max_size=6,
    )
)
def test_ranks_of_one_color_come_together_by_key_else_by_rank(wishes):
    keys = [rank if key is None else key for rank, (_color, key) in enumerate(wishes)]
    for rank, (group, prepared) in enumerate(split(*wishes, members=tuple(range(len(wishes))))):
        color = wishes[rank][0]
        if color is None:
            assert (group, prepared) == (None, [])
            continue
        same = [other for other, wish in enumerate(wishes) if wish[0] == color]
        ordered = sorted(same, key=lambda other: (keys[other], other))
        assert group.world_ranks == tuple(ordered)
        assert (ordered[group.rank], group.size, group.generation) == (rank, len(same), 5)
        assert prepared == [f"10.0.0.{other}:80" for other in ordered]


def test_a_group_of_a_group_knows_its_ranks_in_the_cluster():
    formed = split((0, 1), (0, 0), (None, None), members=(6, 2, 4))
    assert formed[0][0] == Group(1, 2, 5, "2,6", (2, 6))


def test_large_colors_and_keys_stay_apart():
    formed = split((2**61, 2**61), (2**61 + 1, 0), (2**61, -(2**61)), (0, 0))
    assert [group.world_ranks for group, _prepared in formed] == [(2, 0), (1,), (2, 0), (3,)]


def test_whole_numbers_of_numpy_are_taken():
    assert splitting.check_wish(np.int64(3), np.uint8(1), 2) == (3, 1)
    assert splitting.check_wish(None, None, 2) == (None, 2)


@pytest.mark.parametrize("value", ["red", 1.0, True, [0]])
@pytest.mark.parametrize("word", ["color", "key"])
def test_other_colors_and_keys_are_refused(value, word):
    with pytest.raises(TypeError, match=f"split got {word}="):
        splitting.check_wish(**{"color": 0, "key": 0, word: value}, rank=0)


@pytest.mark.parametrize(("color", "key"), [(-1, 0), (2**62, 0), (0, -(2**62)), (0, 2**70)])
def test_colors_and_keys_out_of_range_are_refused(color, key):
    with pytest.raises(UsageError, match=r"split got (color|key)="):
        splitting.check_wish(color, key, 0)
