import numpy as np
import pytest

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


def test_ranks_of_one_color_come_together_in_their_order():
    formed = split((0, None), (1, None), (0, None), (1, None))
    groups = [group for group, _prepared in formed]
    assert groups[0] == Group(0, 2, 5, "0,2", (0, 2))
    assert groups[2] == Group(1, 2, 5, "0,2", (0, 2))
    assert groups[1].world_ranks == groups[3].world_ranks == (1, 3)


def test_keys_decide_the_order_and_ranks_where_they_are_equal():
    formed = split((7, 2), (7, -5), (7, 2), (7, 0))
    assert [group.world_ranks for group, _prepared in formed] == [(1, 3, 0, 2)] * 4
    assert [group.rank for group, _prepared in formed] == [2, 0, 3, 1]


def test_a_rank_without_a_key_stands_at_its_rank():
    formed = split((0, None), (0, 0), (0, 9), (0, None))
    assert formed[0][0].world_ranks == (0, 1, 3, 2)


def test_a_rank_without_a_color_is_in_no_group():
    formed = split((None, None), (3, None), (None, 1), (3, None))
    assert formed[0] == formed[2] == (None, [])
    assert formed[1][0].world_ranks == (1, 3)


def test_members_learn_what_the_others_have_prepared_in_the_order_of_the_group():
    _group, prepared = split((0, 3), (1, 0), (0, 1), (0, 2))[3]
    assert prepared == ["10.0.0.2:80", "10.0.0.3:80", "10.0.0.0:80"]


def test_a_group_of_a_group_knows_its_ranks_in_the_cluster():
    formed = split((0, 1), (0, 0), (None, None), members=(6, 2, 4))
    assert formed[0][0] == Group(1, 2, 5, "2,6", (2, 6))


def test_large_colors_and_keys_stay_apart():
    formed = split((2**61, 2**61), (2**61 + 1, 0), (2**61, -(2**61)), (0, 0))
    assert [group.world_ranks for group, _prepared in formed] == [(2, 0), (1,), (2, 0), (3,)]


def test_whole_numbers_of_numpy_are_taken():
    assert splitting.check_wish(np.int64(3), np.uint8(1), 2) == (3, 1)
    assert splitting.check_wish(None, None, 2) == (None, 2)


@pytest.mark.parametrize("given", ["red", 1.0, True, [0]])
@pytest.mark.parametrize("word", ["color", "key"])
def test_other_colors_and_keys_are_refused(given, word):
    with pytest.raises(TypeError, match=f"split got {word}="):
        splitting.check_wish(**{"color": 0, "key": 0, word: given}, rank=0)


@pytest.mark.parametrize(("color", "key"), [(-1, 0), (2**62, 0), (0, -(2**62)), (0, 2**70)])
def test_colors_and_keys_out_of_range_are_refused(color, key):
    with pytest.raises(UsageError, match=r"split got .*Accepted"):
        splitting.check_wish(color, key, 0)
