import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.views.outputs.shared_states import SharedStates


@pytest.fixture
def shared():
    return SharedStates(list, list.copy)


def say(states, ranks, word):
    for _, state in states.take(ranks):
        state.append(word)


def test_ranks_that_are_treated_alike_have_one_state(shared):
    say(shared, (2, 0, 1), "a")
    say(shared, (0, 1, 2), "b")
    assert [*shared] == [((0, 1, 2), ["a", "b"])]
    assert shared.find(0) is shared.find(2)


def test_those_that_part_go_on_with_copies(shared):
    say(shared, (0, 1, 2), "a")
    say(shared, (1,), "b")
    assert [*shared] == [((0, 2), ["a"]), ((1,), ["a", "b"])]
    assert shared.find(3) is None


@given(st.lists(st.sets(st.integers(0, 5), min_size=1), max_size=12))
def test_each_rank_has_what_was_said_of_it_and_no_more(calls):
    states = SharedStates(list, list.copy)
    for number, ranks in enumerate(calls):
        taken = states.take(sorted(ranks))
        assert sorted(rank for members, _ in taken for rank in members) == sorted(ranks)
        for _, state in taken:
            state.append(number)
    for rank in range(6):
        expected = [number for number, ranks in enumerate(calls) if rank in ranks]
        assert (states.find(rank) or []) == expected
    members = [rank for ranks, _ in states for rank in ranks]
    assert sorted(members) == sorted(set().union(*calls))
