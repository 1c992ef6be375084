import pytest

from jupyter_dist.model.ranks.held_time import Deadline, HeldTime


@pytest.fixture
def held():
    return HeldTime()


def test_nothing_is_held_at_first(held):
    assert not held.is_held
    assert (held.held_s(0.0, 9.0), held.clock_s(9.0), held.deadline_s(1.0, 5.0, 9.0)) == (0, 9, 6)


def test_only_the_part_after_the_beginning_counts(held):
    for begin_s, end_s in ((1.0, 3.0), (10.0, 14.0)):
        held.hold(begin_s)
        held.hold(begin_s + 0.5)
        held.release(end_s)
        held.release(end_s + 0.5)
    assert held.held_s(0.0, 20.0) == 6.0
    assert held.held_s(2.0, 20.0) == 5.0
    assert held.held_s(15.0, 20.0) == 0.0
    assert held.deadline_s(9.0, 2.0, 20.0) == 15.0


def test_while_it_is_held_no_deadline_comes(held):
    held.hold(10.0)
    assert held.held_s(4.0, 11.0) == 1.0
    assert held.deadline_s(4.0, 6.0, 11.0) > 11.0, "its patience was over when it was held"
    held.release(12.0)
    assert held.deadline_s(4.0, 6.0, 12.0) == 12.0


def test_its_clock_stands_still_and_never_goes_back(held):
    times = [held.clock_s(9.0)]
    for begin_s in range(10, 3000, 2):
        held.hold(begin_s)
        times.append(held.clock_s(begin_s + 0.5))
        held.release(begin_s + 1)
        times.append(held.clock_s(begin_s + 1.5))
    assert times == sorted(times)
    assert times[1] == times[0] + 1.0


def test_a_deadline_is_later_by_the_time_that_was_held():
    held = HeldTime()
    deadline = Deadline(held, 10.0, 4.0)
    assert deadline.left_s(12.0) == 2.0
    held.hold(12.0)
    assert deadline.left_s(99.0) > 0
    held.release(100.0)
    assert deadline.left_s(100.0) == 2.0
    assert deadline.left_s(102.5) < 0
