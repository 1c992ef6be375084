import pytest

from jupyter_dist.coordinator.cells.interruption import (
    GIVE_UP_AFTER_S,
    PATIENCE_S,
    WAKE_AFTER_S,
    Cause,
    Due,
    EscalationPolicy,
    Step,
    find_places,
    name_unanswered,
    offer_healing,
)
from jupyter_dist.coordinator.observation.rank_queries import Answers
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.protocol.messages import NoAnswer

CELL = Frame("<module>", "In[4]:7", "fit(data)")
LIBRARY = Frame("step", "train.py:12", "lib.sleep(30)")
EARLIER = Frame("solve", "In[2]:3", "lib.solve(a)")


class Times(dict):
    """Of ranks that could have answered all the time."""

    begin = dict.__setitem__

    def look(self):
        pass

    def passed_s(self, rank, now_s):
        return now_s - self[rank]


@pytest.fixture
def ladder():
    return EscalationPolicy(Times())


def stacks(*frames, **more):
    threads = (ThreadStack("MainThread", True, frames), ThreadStack("helper", False, (LIBRARY,)))
    return RankStacks(threads=threads, **more)


def place_of(answer):
    return find_places(Answers({2: answer}, {}))[2]


class TestLadder:
    def test_an_answer_in_time_ends_it_for_good(self, ladder):
        ladder.begin(Cause.PERSON, (0, 1), 0.0)
        assert ladder.take_due(set(), 1.0) == []
        ladder.begin(Cause.LIMIT, (1,), 1.0)  # busy still, though the cell has ended without it
        assert ladder.take_due(set(), 100.0) == []

    @pytest.mark.parametrize("is_late", [False, True])
    def test_the_steps_come_in_their_order_and_once_also_after_a_late_look(self, ladder, is_late):
        ladder.begin(Cause.PERSON, (0, 2), 10.0)
        steps = []
        if not is_late:
            assert ladder.take_due({0, 2}, 10.1) == []
            steps = ladder.take_due({0, 2}, 11.9)
            assert steps == [Due(Step.WAKE, Cause.PERSON, (0, 2))]
            steps += ladder.take_due({0, 2}, 10.0 + PATIENCE_S)
            assert [due.ranks for due in steps] == [(0, 2)] * 3
            assert ladder.take_due({0, 2}, 10.0 + GIVE_UP_AFTER_S - 0.1) == []
        steps += ladder.take_due({2}, 10.0 + GIVE_UP_AFTER_S)
        wanted = [Step.WAKE, Step.ABORT, Step.NAME, Step.LEAVE_UNRESPONSIVE]
        assert [due.step for due in steps] == wanted
        assert steps[-1] == Due(Step.LEAVE_UNRESPONSIVE, Cause.PERSON, (2,))
        assert ladder.take_due({2}, 100.0) == []

    def test_who_is_not_awake_yet_is_woken_again(self, ladder):
        ladder.begin(Cause.PERSON, (0, 1), 0.0)
        woken = [
            [(due.step, due.ranks) for due in ladder.take_due({0, 1}, after_s)]
            for after_s in (0.19, *WAKE_AFTER_S, 1.99)
        ]
        assert woken == [[], *([(Step.WAKE, (0, 1))] for _ in WAKE_AFTER_S), []]

    def test_each_rank_has_its_own_clock(self, ladder):
        ladder.begin(Cause.PERSON, (1,), 0.0)
        ladder.begin(Cause.PERSON, (1, 3), 1.5)
        assert {due.ranks for due in ladder.take_due({1, 3}, 1.6)} == {(1,)}
        assert {due.ranks for due in ladder.take_due({1, 3}, 2.0)} == {(1,), (3,)}
        assert {due.ranks for due in ladder.take_due({1, 3}, 3.5)} == {(1,), (3,)}

    def test_a_time_limit_is_shorter_than_the_interrupt_before_it(self, ladder):
        ladder.begin(Cause.PERSON, (1,), 0.0)
        ladder.begin(Cause.LIMIT, (1,), 1.0)
        assert ladder.take_due({1}, 1.0) == [Due(Step.ABORT, Cause.LIMIT, (1,))]
        assert ladder.take_due({1}, 2.0) == [Due(Step.WAKE, Cause.LIMIT, (1,))]
        assert ladder.take_due({1}, 3.0) == [Due(Step.TIME_OUT, Cause.LIMIT, (1,))]

    def test_an_interrupt_after_the_time_limit_changes_nothing(self, ladder):
        ladder.begin(Cause.LIMIT, (1,), 1.0)
        ladder.begin(Cause.PERSON, (1,), 2.0)
        steps = [due.step for due in ladder.take_due({1}, 3.0)]
        assert steps == [Step.WAKE, Step.ABORT, Step.TIME_OUT]


class TestWhereARankIs:
    @pytest.mark.parametrize(
        ("frames", "place", "caller"),
        [
            ((CELL,), ": In[4]:7: fit(data)", ""),
            ((CELL, LIBRARY), ": train.py:12 in step: lib.sleep(30)", "In[4]:7"),
            ((LIBRARY, CELL, LIBRARY), ": train.py:12 in step: lib.sleep(30)", "In[4]:7"),
            ((CELL, EARLIER), ": In[2]:3 in solve: lib.solve(a)", "In[4]:7"),
        ],
    )
    def test_is_its_innermost_line_and_that_of_the_running_cell(self, frames, place, caller):
        text = place_of(stacks(*frames))
        assert text.startswith(place)
        assert text.endswith(f" {caller})" if caller else place)

    def test_is_told_with_what_the_kernel_knows(self):
        text = place_of(stacks(CELL, LIBRARY, process_state="T"))
        assert " In[4]:7; " in text
        assert "stopped" in text

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (NoAnswer("GIL held."), "GIL held"),
            (RankStacks(source="none", note="no py-spy"), "no py-spy"),
            (RankStacks(source="none", process_state="D"), "swap"),
        ],
    )
    def test_may_be_unknown_for_a_reason(self, answer, reason):
        assert place_of(answer).endswith(f"{reason})")
        (text,) = find_places(Answers({}, {1: "agent gone"})).values()
        assert text.endswith(": agent gone)")


def test_ranks_at_the_same_line_share_one_line():
    places = {0: ": In[4]:7: f()", 1: ": In[4]:7: f()", 2: ": In[4]:9: g()"}
    first, second = name_unanswered({0, 1, 2}, places).splitlines()
    for text, who, place in ((first, "ranks 0-1 ", places[0]), (second, "rank 2 ", places[2])):
        assert text.startswith(who)
        assert text.endswith(f" 2 s{place}")


def test_healing_is_offered_for_unresponsive_ranks_only():
    offer = offer_healing((1, 2, 3), with_others=True)
    assert offer.startswith("ranks 1-3 ")
    assert "%dist_heal --ranks 1-3 " in offer
    assert "; " in offer
    assert "; " not in offer_healing((0,), with_others=False)
