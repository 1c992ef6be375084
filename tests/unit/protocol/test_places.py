import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.protocol.places import (
    FEW,
    Place,
    find_runs,
    key_of,
    ranks_by_host,
    ranks_to_know,
    read_place,
    write_place,
)


@pytest.mark.parametrize("size", [1, 2, FEW])
def test_few_ranks_know_each_other(size):
    assert [*ranks_to_know(size - 1, size)] == [*range(size)]


@pytest.mark.parametrize("size", [FEW + 1, 128, 4096])
def test_of_many_ranks_each_knows_itself_and_those_that_trees_and_rings_connect_it_to(size):
    first, *others = ranks_to_know(size - 2, size)
    powers = {1 << power for power in range(20) if 1 << power < size}
    assert first == size - 2
    assert {(rank - first) % size for rank in others} == powers | {size - far for far in powers}
    assert len(others) == len(set(others))


def test_a_place_crosses_as_a_value():
    place = Place("10.0.0.1:4000", "nodeA")
    assert read_place(write_place(place)) == place
    assert key_of(3) != key_of(13)


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_runs_tell_which_ranks_follow_each_other_on_a_host(hosts):
    groups = ranks_by_host(find_runs(hosts))
    assert [rank for ranks in groups for rank in ranks] == [*range(len(hosts))]
    for ranks in groups:
        assert len({hosts[rank] for rank in ranks}) == 1
        assert ranks.stop == len(hosts) or hosts[ranks.stop] != hosts[ranks.start]


def test_hosts_that_are_alike_take_no_more_room_than_one():
    assert find_runs([f"node{rank // 8}" for rank in range(4096)]) == ((512, 8),)
