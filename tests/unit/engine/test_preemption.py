import re
import threading

import pytest

from jupyter_dist.engine.preemption import Preemption
from jupyter_dist.errors import CheckpointFailed, UsageError
from jupyter_dist.model.preemption import Position, SavePoint
from jupyter_dist.protocol.messages import (
    NoticeHandled,
    NoticeOver,
    NoticePosition,
    NoticesWanted,
    PreemptNotice,
    SavePointChosen,
)

CELL = "cell-3"
TEXT = "b will be taken away (SIGTERM)"


class Rank:
    """A rank whose messages are kept."""

    def __init__(self):
        self.said = []
        self.preemption = Preemption(lambda: 1, self.said.append)
        self.preemption.enter_cell(CELL)

    def notice(self, number=1, left_s=30.0, *, tells_jax=False):
        self.preemption.on_message(PreemptNotice(number, TEXT, left_s, tells_jax))

    def choose(self, call, number=1, *, cell_id=CELL, saves_marked=False):
        point = SavePoint(cell_id, call, saves_marked=saves_marked)
        self.preemption.on_message(SavePointChosen(number, point))

    def answers(self, count, **arguments):
        return [self.preemption.should_save(**arguments) for _ in range(count)]

    def told(self, kind):
        return [message for message in self.said if isinstance(message, kind)]


@pytest.fixture
def rank():
    return Rank()


def test_without_a_notice_nothing_is_to_be_saved(rank):
    assert rank.answers(3) == [False] * 3
    assert rank.preemption.notice is None


def test_interest_is_told_once_for_each_cell(rank):
    rank.answers(3)
    assert rank.told(NoticesWanted) == [NoticesWanted(1, False, False, CELL)]
    rank.preemption.leave_cell()
    rank.preemption.enter_cell("cell-4")
    rank.answers(2)
    assert rank.told(NoticesWanted)[1:] == [NoticesWanted(1, False, False, "cell-4")]


def test_functions_and_marks_are_interest_whatever_runs(rank):
    rank.preemption.on_preempt(print)
    rank.preemption.on_preempt(print)
    rank.preemption.has_marks = lambda: True
    rank.preemption.tell_interest()
    rank.preemption.save_marked = lambda: None
    rank.preemption.tell_interest()
    assert rank.told(NoticesWanted) == [
        NoticesWanted(1, True),
        NoticesWanted(1, True, has_marks=True),
    ]


def test_interest_is_told_again_where_somebody_may_have_missed_it(rank):
    rank.preemption.on_preempt(print)
    rank.preemption.tell_interest(again=True)
    assert rank.told(NoticesWanted) == [NoticesWanted(1, True)] * 2


def test_a_notice_is_answered_with_the_calls_so_far(rank):
    rank.answers(4)
    rank.notice()
    assert rank.told(NoticePosition) == [NoticePosition(1, 1, Position(CELL, 4))]
    assert rank.preemption.notice == TEXT


def test_a_notice_is_answered_with_the_last_step(rank):
    rank.answers(2, step=70)
    rank.notice()
    (answer,) = rank.told(NoticePosition)
    assert answer.position == Position(CELL, 2, 70)


def test_true_comes_at_the_chosen_call_and_at_no_other(rank):
    rank.answers(2)
    rank.notice()
    rank.choose(5)
    assert rank.answers(6) == [False, False, True, False, False, False]


def test_in_another_cell_the_first_call_is_the_one(rank):
    rank.preemption.leave_cell()
    rank.notice()
    rank.choose(5)
    rank.preemption.enter_cell("cell-4")
    assert rank.answers(3) == [True, False, False]


def test_a_call_waits_until_the_save_point_is_told(rank):
    rank.notice()
    found = []
    caller = threading.Thread(target=lambda: found.append(rank.preemption.should_save()))
    caller.start()
    caller.join(0.3)
    assert caller.is_alive()
    assert found == []
    rank.choose(1)
    caller.join(10)
    assert found == [True]


@pytest.mark.parametrize("end", ["over", "deadline"])
def test_nobody_waits_longer_than_the_notice_lasts(rank, end):
    rank.notice(left_s=30.0 if end == "over" else 0.0)
    if end == "over":
        rank.preemption.on_message(NoticeOver(1))
        assert rank.preemption.notice is None
    assert rank.answers(2) == [False, False]


def test_what_is_said_of_an_older_notice_does_not_count(rank):
    rank.notice(2)
    rank.choose(1, number=1)
    rank.preemption.on_message(NoticeOver(1))
    assert rank.preemption.notice == TEXT
    rank.choose(2, number=2)
    assert rank.answers(3) == [False, True, False]


def test_it_is_handled_when_the_cell_goes_on_and_not_before(rank):
    rank.notice()
    rank.choose(1)
    assert rank.answers(1) == [True]
    assert rank.told(NoticeHandled) == []
    rank.answers(2)
    assert rank.told(NoticeHandled) == [NoticeHandled(1, 1)]


def test_it_is_handled_when_the_cell_ends(rank):
    rank.notice()
    rank.choose(1)
    rank.answers(1)
    rank.preemption.leave_cell()
    rank.preemption.leave_cell()
    assert rank.told(NoticeHandled) == [NoticeHandled(1, 1)]


def test_what_is_saved_in_the_background_is_waited_for(rank):
    saving = [True]
    rank.preemption.is_saving = lambda: saving[0]
    rank.notice()
    rank.choose(1)
    rank.answers(2)
    rank.preemption.look()
    assert rank.told(NoticeHandled) == []
    saving[0] = False
    rank.preemption.look()
    rank.preemption.look()
    assert rank.told(NoticeHandled) == [NoticeHandled(1, 1)]


def test_functions_are_called_once_and_see_the_notice(rank):
    called = []
    rank.preemption.on_preempt(lambda: called.append(rank.preemption.notice))
    rank.notice()
    rank.choose(1)
    rank.answers(2)
    rank.preemption.handle(1, TEXT, 30.0, saves_marked=False)
    assert called == [TEXT]
    rank.notice(2)
    rank.preemption.handle(1, TEXT, 30.0, saves_marked=False)
    assert called == [TEXT]
    rank.preemption.handle(2, TEXT, 30.0, saves_marked=False)
    assert called == [TEXT] * 2


def test_a_function_may_ask_whether_to_save_and_is_told_no(rank):
    asked = []
    rank.preemption.on_preempt(lambda: asked.append(rank.preemption.should_save()))
    rank.notice()
    rank.choose(1)
    assert rank.answers(1) == [True]
    assert asked == [False]


def test_a_function_that_raises_is_told_and_the_others_are_called(rank, capsys):
    called = []

    def bad():
        raise ValueError("no disk")

    rank.preemption.on_preempt(bad)
    rank.preemption.on_preempt(lambda: called.append(1))
    rank.notice()
    rank.preemption.handle(1, TEXT, 30.0, saves_marked=False)
    rank.preemption.leave_cell()
    (handled,) = rank.told(NoticeHandled)
    place = f"(test_preemption.py:{bad.__code__.co_firstlineno + 1})"
    assert handled.problems[0].endswith(f"bad() of on_preempt raised ValueError: no disk {place}")
    assert called == [1]
    assert "ValueError: no disk" in capsys.readouterr().err


def test_a_function_that_takes_too_long_is_ended_and_the_others_have_their_time(rank):
    called = []
    rank.preemption.on_preempt(lambda: threading.Event().wait(600))
    rank.preemption.on_preempt(lambda: called.append(1))
    rank.notice(left_s=4.0)
    rank.preemption.handle(1, TEXT, 30.0, saves_marked=False)
    rank.preemption.leave_cell()
    (handled,) = rank.told(NoticeHandled)
    (limit_s,) = re.findall(r"took longer than ([\d.]+) s", handled.problems[0])
    # Half of what was left when it was called; a busy machine calls it late.
    assert 1 < float(limit_s) <= 2
    assert called == [1]


def test_what_is_marked_is_saved_once_where_all_ranks_save(rank):
    saved = []
    rank.preemption.save_marked = lambda: saved.append(1)
    rank.notice()
    rank.choose(1, saves_marked=True)
    rank.answers(2)
    rank.preemption.handle(1, TEXT, 30.0, saves_marked=True)
    assert saved == [1]
    assert rank.told(NoticeHandled) == [NoticeHandled(1, 1, has_saved=True, has_tried=True)]


def test_what_could_not_be_saved_is_told(rank, capsys):
    def fail():
        raise CheckpointFailed("the disk is full")

    rank.preemption.save_marked = fail
    rank.notice()
    rank.choose(1, saves_marked=True)
    rank.answers(2)
    (handled,) = rank.told(NoticeHandled)
    assert not handled.has_saved
    assert handled.has_tried
    assert handled.problems == ("what is marked was not saved: the disk is full",)
    assert "the disk is full" in capsys.readouterr().err


def test_a_save_that_is_interrupted_is_left_to_the_cell_that_comes_then(rank):
    saved = []

    def save():
        saved.append(1)
        if len(saved) == 1:
            raise KeyboardInterrupt

    rank.preemption.save_marked = save
    rank.notice()
    rank.choose(1, saves_marked=True)
    with pytest.raises(KeyboardInterrupt):
        rank.answers(1)
    assert rank.answers(1) == [False], "the other ranks are not there any more"
    rank.preemption.leave_cell()
    assert rank.told(NoticeHandled) == []
    rank.preemption.enter_cell("preempt-1")
    rank.preemption.handle(1, TEXT, 30.0, saves_marked=True)
    rank.preemption.leave_cell()
    assert saved == [1, 1]
    assert rank.told(NoticeHandled) == [NoticeHandled(1, 1, has_saved=True, has_tried=True)]


def test_a_function_that_is_interrupted_is_told_and_the_others_are_called_later(rank):
    called = []

    def stopped():
        raise KeyboardInterrupt

    rank.preemption.on_preempt(stopped)
    rank.preemption.on_preempt(lambda: called.append(1))
    rank.notice()
    rank.choose(1)
    with pytest.raises(KeyboardInterrupt):
        rank.answers(1)
    rank.preemption.leave_cell()
    rank.preemption.handle(1, TEXT, 30.0, saves_marked=False)
    rank.preemption.leave_cell()
    (handled,) = rank.told(NoticeHandled)
    assert handled.problems[0].endswith("stopped() of on_preempt was interrupted")
    assert called == [1]


def test_what_is_interrupted_in_the_cell_of_the_notice_is_told_and_over(rank):
    def save():
        raise KeyboardInterrupt

    rank.preemption.save_marked = save
    rank.notice()
    with pytest.raises(KeyboardInterrupt):
        rank.preemption.handle(1, TEXT, 30.0, saves_marked=True)
    rank.preemption.leave_cell()
    (handled,) = rank.told(NoticeHandled)
    assert handled.problems == ("what is marked was not saved: it was interrupted",)


def test_a_rank_that_came_after_the_notice_does_it_as_the_others(rank):
    seen = []
    rank.preemption.on_preempt(lambda: seen.append(rank.preemption.notice))
    rank.preemption.save_marked = lambda: seen.append("saved")
    rank.preemption.handle(3, TEXT, 30.0, saves_marked=True)
    rank.preemption.leave_cell()
    assert seen == [TEXT, "saved"]
    assert rank.told(NoticeHandled) == [NoticeHandled(1, 3, has_saved=True, has_tried=True)]


def test_in_another_cell_than_the_chosen_one_nothing_is_saved_together(rank):
    saved = []
    rank.preemption.save_marked = lambda: saved.append(1)
    rank.notice()
    rank.choose(5, saves_marked=True)
    rank.preemption.enter_cell("cell-4")
    assert rank.answers(2) == [True, False]
    assert saved == []
    assert rank.told(NoticeHandled) == [NoticeHandled(1, 1)]


def test_outside_of_cells_nothing_is_to_be_saved(rank):
    rank.preemption.leave_cell()
    rank.notice()
    assert rank.answers(1) == [False]


def test_jax_is_told_where_this_rank_is_to_do_that(rank):
    told = []
    rank.preemption.tell_jax = lambda: told.append(1)
    rank.notice()
    assert told == []
    rank.notice(2, tells_jax=True)
    assert told == [1]


@pytest.mark.parametrize("step", [-1, 1.5, "3"])
def test_what_is_no_step_is_refused(rank, step):
    with pytest.raises(UsageError, match="Give the number of the step"):
        rank.preemption.should_save(step)


def test_what_cannot_be_called_is_refused(rank):
    with pytest.raises(UsageError, match="Give a function without arguments"):
        rank.preemption.on_preempt(3)
