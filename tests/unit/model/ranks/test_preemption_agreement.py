import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.model.ranks.preemption_agreement import (
    Position,
    SavePoint,
    choose_save_point,
    describe_late,
    describe_notice,
    is_end_near,
    time_to_save_s,
)

CELL = "cell-3"


def first_true(point, position, steps=None):
    """Give the number of the call, counted from 1, at which a rank that goes on saves."""
    for call in range(position.calls + 1, position.calls + 10_000):
        if point.is_reached(CELL, call, steps(call) if steps else -1):
            return call
    return None


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_all_ranks_save_at_one_call_that_none_has_passed(calls):
    positions = [Position(CELL, each) for each in calls]
    point = choose_save_point(CELL, positions)
    found = {first_true(point, position) for position in positions}
    assert found == {max(calls) + 1}


@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(1, 7))
def test_all_ranks_save_at_one_step_also_when_steps_leave_numbers_out(calls, stride):
    positions = [Position(CELL, each, stride * each if each else -1) for each in calls]
    point = choose_save_point(CELL, positions)
    found = {first_true(point, each, lambda call: stride * call) for each in positions}
    assert found == {max(calls) + 1}


def test_a_rank_that_has_not_begun_the_cell_counts_from_its_beginning():
    point = choose_save_point(CELL, [Position(CELL, 4), Position("cell-2", 90, 900), Position()])
    assert point == SavePoint(CELL, 5)
    assert not point.is_reached(CELL, 1)
    assert point.is_reached(CELL, 5)


def test_where_nobody_has_called_it_the_first_call_is_the_one():
    assert choose_save_point(CELL, [Position(), Position(CELL)]) == SavePoint(CELL, 1)
    assert choose_save_point("", []) == SavePoint("", 1)


def test_a_rank_in_another_cell_saves_at_its_first_call():
    assert SavePoint(CELL, 50).is_reached("cell-4", 1)
    assert SavePoint("", 1).is_reached("cell-4", 1, 7)


def test_steps_count_where_a_call_gives_one_and_calls_where_it_does_not():
    point = choose_save_point(CELL, [Position(CELL, 3, 30), Position(CELL, 5)])
    assert point == SavePoint(CELL, 6, 31)
    assert not point.is_reached(CELL, 6, 30)
    assert point.is_reached(CELL, 4, 31)
    assert point.is_reached(CELL, 6)


def test_a_step_where_no_rank_has_given_one_before_leaves_the_calls_to_decide():
    point = choose_save_point(CELL, [Position(CELL, 2)])
    assert not point.is_reached(CELL, 2, 99)
    assert point.is_reached(CELL, 3, 0)


@pytest.mark.parametrize(
    ("left_s", "known_left_s", "is_near"),
    [
        (121.0, 7200.0, False),
        (120.0, 7200.0, True),
        (21.0, 60.0, False),
        (20.0, 60.0, True),
        (100.0, 120.0, False),
        (40.0, 120.0, True),
        (0.0, 0.0, True),
    ],
)
def test_ranks_are_told_two_minutes_before_the_end_or_in_the_last_third(
    left_s, known_left_s, is_near
):
    assert is_end_near(left_s, known_left_s) is is_near


def test_ranks_do_not_use_up_all_the_time_that_is_left():
    assert 0 < time_to_save_s(100.0) < 100.0
    assert time_to_save_s(0.0) == time_to_save_s(30.0)


@pytest.mark.parametrize(
    ("hosts", "reason", "left_s", "text"),
    [
        (["a"], "SIGTERM", 0.0, "a will be taken away (SIGTERM)"),
        (["a", "b"], "", 29.6, "a, b will be taken away in 30 s"),
        ([], "Slurm job 7", 110.0, "every host will be taken away in 110 s (Slurm job 7)"),
    ],
)
def test_a_notice_says_who_goes_when_and_why(hosts, reason, left_s, text):
    assert describe_notice(hosts, reason, left_s) == text


def test_who_is_late_is_named_by_what_it_does():
    assert describe_late([], [], []) == ""
    never_called, saving, idle = describe_late([1], [3, 2], [0]).split("; ")
    assert re.fullmatch(r"rank 1 has .*checkpoint\.should_save\(\).*", never_called)
    assert re.fullmatch("ranks 2-3 are .*saving", saving)
    assert idle.startswith("rank 0 has ")
