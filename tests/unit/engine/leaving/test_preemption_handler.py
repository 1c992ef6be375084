"""What is done before a host is taken away: when, by which functions, and what is told."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from unittest.mock import Mock

import pytest

from jupyter_dist.engine.leaving.preemption_handler import NoticeDuties, PreemptionHandler
from jupyter_dist.errors import CheckpointFailed, UsageError
from jupyter_dist.model.ranks.preemption_agreement import Position, SavePoint
from jupyter_dist.protocol.commands import PreemptionRequest
from jupyter_dist.protocol.messages import (
    NoticeHandled,
    NoticeOver,
    NoticePosition,
    PreemptNotice,
    SavePointChosen,
    WatchNotices,
)

CELL = "cell-3"
TEXT = "b will be taken away (SIGTERM)"


class Duties(NoticeDuties):
    """What a test says."""

    is_saving = False
    can_save = True
    has_marks = False


class Rank:
    """A rank whose messages are kept."""

    def __init__(self):
        self.said = []
        self.sigterm = Mock()
        self.preemption = PreemptionHandler(lambda: 1, self.said.append, self.sigterm)
        self.preemption.duties = self.duties = Duties()
        self.preemption.enter_cell(CELL)

    def notice(self, number=1, left_s=30.0, *, tells_jax=False):
        self.preemption.on_message(PreemptNotice(number, TEXT, left_s, tells_jax))

    def choose(self, call, number=1, *, cell_id=CELL, saves_marked=False):
        point = SavePoint(cell_id, call, saves_marked=saves_marked)
        self.preemption.on_message(SavePointChosen(number, point))

    def meet_notice(self, *, saves_marked=False):
        """Hear of a notice, and that all save at the first call from then on."""
        self.notice()
        self.choose(1, saves_marked=saves_marked)

    def answers(self, count, **arguments):
        return [self.preemption.should_save(**arguments) for _ in range(count)]

    def handle(self, number=1, *, saves_marked=False):
        """Do what the coordinator has all ranks do, in a cell of its own."""
        request = PreemptionRequest(number, TEXT, 30.0, saves_marked=saves_marked)
        try:
            self.preemption.handle(request)
        finally:
            self.preemption.leave_cell()

    def told(self, kind=NoticeHandled):
        return [message for message in self.said if isinstance(message, kind)]

    def problem(self):
        """Return the one problem of the one notice that was handled."""
        (handled,) = self.told()
        (problem,) = handled.problems
        return problem


@pytest.fixture
def rank():
    return Rank()


def test_without_a_notice_nothing_is_to_be_saved(rank):
    assert rank.answers(3) == [False] * 3
    assert rank.preemption.notice is None


def test_interest_is_told_once_for_each_cell(rank):
    rank.answers(3)
    assert rank.told(WatchNotices) == [WatchNotices(1, False, False, CELL)]
    rank.preemption.leave_cell()
    rank.preemption.enter_cell("cell-4")
    rank.answers(2)
    assert rank.told(WatchNotices)[1:] == [WatchNotices(1, False, False, "cell-4")]


def test_functions_and_marks_are_interest_whatever_runs(rank):
    rank.preemption.on_preempt(print)
    rank.preemption.on_preempt(print)
    rank.duties.has_marks = True
    rank.preemption.tell_interest()
    assert rank.told(WatchNotices) == [
        WatchNotices(1, True),
        WatchNotices(1, True, has_marks=True),
    ]


def test_interest_is_told_again_where_somebody_may_have_missed_it(rank):
    rank.preemption.on_preempt(print)
    rank.preemption.tell_interest(again=True)
    assert rank.told(WatchNotices) == [WatchNotices(1, True)] * 2


@pytest.mark.parametrize("step", [None, 70])
def test_a_notice_is_answered_with_the_calls_so_far_and_the_last_step(rank, step):
    rank.answers(4, step=step)
    rank.notice()
    position = Position(CELL, 4) if step is None else Position(CELL, 4, step)
    assert rank.told(NoticePosition) == [NoticePosition(1, 1, position)]
    assert rank.preemption.notice == TEXT


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
    with ThreadPoolExecutor() as others:
        call = others.submit(rank.preemption.should_save)
        assert not wait([call], 0.3).done
        rank.choose(1)
        assert call.result(10)


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


@pytest.mark.parametrize("goes_on", [True, False])
def test_it_is_handled_when_the_cell_goes_on_or_ends_and_not_before(rank, goes_on):
    rank.meet_notice()
    assert rank.answers(1) == [True]
    assert rank.told() == []
    for _ in range(2):
        rank.answers(1) if goes_on else rank.preemption.leave_cell()
    assert rank.told() == [NoticeHandled(1, 1)]


def test_what_is_saved_in_the_background_is_waited_for(rank):
    rank.duties.is_saving = True
    rank.meet_notice()
    rank.answers(2)
    rank.preemption.look()
    assert rank.told() == []
    rank.duties.is_saving = False
    rank.preemption.look()
    rank.preemption.look()
    assert rank.told() == [NoticeHandled(1, 1)]


def test_functions_are_called_once_and_see_the_notice(rank):
    called = []
    rank.preemption.on_preempt(lambda: called.append(rank.preemption.notice))
    rank.meet_notice()
    rank.answers(2)
    rank.handle()
    assert called == [TEXT]
    rank.notice(2)
    rank.handle()
    assert called == [TEXT]
    rank.handle(2)
    assert called == [TEXT] * 2


def test_a_function_may_ask_whether_to_save_and_is_told_no(rank):
    asked = []
    rank.preemption.on_preempt(lambda: asked.append(rank.preemption.should_save()))
    rank.meet_notice()
    assert rank.answers(1) == [True]
    assert asked == [False]


def test_a_function_that_raises_is_told_and_the_others_are_called(rank, capsys):
    called = []

    def bad():
        raise ValueError("no disk")

    rank.preemption.on_preempt(bad)
    rank.preemption.on_preempt(lambda: called.append(1))
    rank.notice()
    rank.handle()
    place = f"(test_preemption_handler.py:{bad.__code__.co_firstlineno + 1})"
    assert rank.problem().endswith(f"ValueError: no disk {place}")
    assert called == [1]
    assert "ValueError: no disk" in capsys.readouterr().err


def test_a_function_that_takes_too_long_is_ended_and_the_others_have_their_time(rank):
    called = []
    rank.preemption.on_preempt(lambda: threading.Event().wait(600))
    rank.preemption.on_preempt(lambda: called.append(1))
    rank.notice(left_s=4.0)
    rank.handle()
    (limit_s,) = re.findall(r"([\d.]+) s", rank.problem())
    # Half of what was left when it was called; a busy machine calls it late.
    assert 1 < float(limit_s) <= 2
    assert called == [1]


def test_what_is_marked_is_saved_once_where_all_ranks_save(rank):
    saved = []
    rank.duties.save_marked = lambda: saved.append(1)
    rank.meet_notice(saves_marked=True)
    rank.answers(2)
    rank.handle(saves_marked=True)
    assert saved == [1]
    assert rank.told() == [NoticeHandled(1, 1, has_saved=True, has_tried=True)]


def test_what_could_not_be_saved_is_told(rank, capsys):
    rank.duties.save_marked = Mock(side_effect=CheckpointFailed("disk full"))
    rank.meet_notice(saves_marked=True)
    rank.answers(2)
    (handled,) = rank.told()
    assert (handled.has_saved, handled.has_tried) == (False, True)
    assert rank.problem().endswith(": disk full")
    assert "disk full" in capsys.readouterr().err


def test_a_save_that_is_interrupted_is_left_to_the_cell_that_comes_then(rank):
    save = rank.duties.save_marked = Mock(side_effect=[KeyboardInterrupt, None])
    rank.meet_notice(saves_marked=True)
    with pytest.raises(KeyboardInterrupt):
        rank.answers(1)
    assert rank.answers(1) == [False], "the other ranks are not there any more"
    rank.preemption.leave_cell()
    assert rank.told() == []
    rank.preemption.enter_cell("preempt-1")
    rank.handle(saves_marked=True)
    assert save.call_count == 2
    assert rank.told() == [NoticeHandled(1, 1, has_saved=True, has_tried=True)]


def test_a_function_that_is_interrupted_is_told_and_the_others_are_called_later(rank):
    def stopped():
        raise KeyboardInterrupt

    other = Mock()
    rank.preemption.on_preempt(stopped)
    rank.preemption.on_preempt(other)
    rank.meet_notice()
    with pytest.raises(KeyboardInterrupt):
        rank.answers(1)
    rank.preemption.leave_cell()
    rank.handle()
    assert "stopped() of on_preempt" in rank.problem()
    other.assert_called_once_with()


def test_what_is_interrupted_in_the_cell_of_the_notice_is_told_and_over(rank):
    rank.duties.save_marked = Mock(side_effect=KeyboardInterrupt)
    rank.notice()
    with pytest.raises(KeyboardInterrupt):
        rank.handle(saves_marked=True)
    assert rank.problem().endswith("interrupted")


def test_a_rank_that_came_after_the_notice_does_it_as_the_others(rank):
    seen = []
    rank.preemption.on_preempt(lambda: seen.append(rank.preemption.notice))
    rank.duties.save_marked = lambda: seen.append("saved")
    rank.handle(3, saves_marked=True)
    assert seen == [TEXT, "saved"]
    assert rank.told() == [NoticeHandled(1, 3, has_saved=True, has_tried=True)]


def test_in_another_cell_than_the_chosen_one_nothing_is_saved_together(rank):
    saved = []
    rank.duties.save_marked = lambda: saved.append(1)
    rank.notice()
    rank.choose(5, saves_marked=True)
    rank.preemption.enter_cell("cell-4")
    assert rank.answers(2) == [True, False]
    assert saved == []
    assert rank.told() == [NoticeHandled(1, 1)]


def test_outside_of_cells_nothing_is_to_be_saved(rank):
    rank.preemption.leave_cell()
    rank.notice()
    assert rank.answers(1) == [False]


def test_without_a_directory_nothing_is_saved_or_said_to_be(rank):
    rank.duties.can_save, rank.duties.has_marks = False, True
    rank.duties.save_marked = lambda: pytest.fail("there is no place for it")
    rank.preemption.tell_interest()
    assert rank.told(WatchNotices) == []
    rank.handle(saves_marked=True)
    assert rank.told() == [NoticeHandled(1, 1)]


def test_jax_is_told_where_this_rank_is_to_do_that(rank):
    tell = rank.sigterm.tell_jax
    rank.notice()
    tell.assert_not_called()
    rank.notice(2, tells_jax=True)
    tell.assert_called_once_with()


@pytest.mark.parametrize("step", [-1, 1.5, "3"])
def test_what_is_no_step_is_refused(rank, step):
    with pytest.raises(UsageError, match=re.escape(f"should_save({step!r})")):
        rank.preemption.should_save(step)


def test_what_cannot_be_called_is_refused(rank):
    with pytest.raises(UsageError, match=r"on_preempt\(3\)"):
        rank.preemption.on_preempt(3)


# --- functions of cells that are run again --------------------------------------------------

DEFINE = "def tell():\n    called.append({number})\n"


def run_cell(code, called, name="<ipython-input-3-0123456789ab>"):
    """Run the code of a cell; gives its function."""
    space = {"__name__": "__main__", "called": called}
    exec(compile(code, name, "exec"), space)
    return space["tell"]


def test_a_function_whose_cell_is_run_again_takes_the_place_of_the_former_one(rank):
    called = []
    for number in range(3):
        rank.preemption.on_preempt(run_cell(DEFINE.format(number=number), called))
    rank.preemption.on_preempt(lambda: called.append("last"))
    rank.preemption.on_preempt(run_cell(DEFINE.format(number=3), called))
    rank.handle()
    assert called == [3, "last"]


class Model:
    """Something of a user with a method."""

    def __init__(self, name, called):
        self.name, self.called = name, called

    def save(self):
        """Note that it was called."""
        self.called.append(self.name)


def test_lambdas_closures_and_methods_of_several_objects_are_all_called(rank):
    called = []

    def close_over(name):
        def tell():
            called.append(name)

        return tell

    lambdas = [lambda number=number: called.append(number) for number in range(2)]
    first, second = Model("a", called), Model("b", called)
    functions = (close_over("x"), close_over("y"), first.save, second.save, first.save)
    for function in (*lambdas, *functions):
        rank.preemption.on_preempt(function)
    rank.handle()
    assert called == [0, 1, "x", "y", "a", "b"]


@pytest.mark.parametrize("count", [3, 17])
def test_of_a_function_that_raises_the_line_in_its_cell_is_told(rank, count, capsys):
    code = "def tell():\n    return 1 / 0\n"
    rank.preemption.on_preempt(run_cell(code, [], f"<ipython-input-{count}-0123456789ab>"))
    rank.notice()
    rank.handle()
    problem = rank.problem()  # the same for all cells, whose folders differ from rank to rank
    assert re.search(r"^tell\(\) .* ZeroDivisionError: .*\bline 2\b", problem)
    assert "ipython" not in problem
    assert "ZeroDivisionError" in capsys.readouterr().err
