import pytest

from jupyter_dist.coordinator.interruption import (
    GIVE_UP_AFTER_S,
    PATIENCE_S,
    Cause,
    Due,
    Ladder,
    Step,
    find_places,
    name_unanswered,
    offer_healing,
)
from jupyter_dist.coordinator.questions import Answers
from jupyter_dist.model.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.protocol.messages import NoAnswer

CELL = Frame("<module>", "In[4]:7", "fit(data)")
LIBRARY = Frame("step", "train.py:12", "lib.sleep(30)")


@pytest.fixture
def ladder():
    return Ladder()


def stacks(*frames, **more):
    threads = (ThreadStack("MainThread", True, frames), ThreadStack("helper", False, (LIBRARY,)))
    return RankStacks(threads=threads, **more)


def place_of(answer):
    return find_places(Answers({2: answer}, {}))[2]


class TestLadder:
    def test_an_answer_in_time_ends_it(self, ladder):
        ladder.begin(Cause.PERSON, (0, 1), 0.0)
        ladder.end(0)
        ladder.end(1)
        assert ladder.take_due(100.0) == []

    def test_the_steps_come_in_their_order_and_once(self, ladder):
        ladder.begin(Cause.PERSON, (0, 2), 10.0)
        assert ladder.take_due(11.9) == []
        assert ladder.take_due(10.0 + PATIENCE_S) == [
            Due(Step.ABORT, Cause.PERSON, (0, 2)),
            Due(Step.NAME, Cause.PERSON, (0, 2)),
        ]
        assert ladder.take_due(10.0 + GIVE_UP_AFTER_S - 0.1) == []
        ladder.end(0)
        assert ladder.take_due(10.0 + GIVE_UP_AFTER_S) == [Due(Step.LEAVE_DEAF, Cause.PERSON, (2,))]
        assert ladder.take_due(100.0) == []

    def test_a_late_look_at_the_clock_takes_all_steps_at_once(self, ladder):
        ladder.begin(Cause.PERSON, (1,), 0.0)
        assert [due.step for due in ladder.take_due(60.0)] == [
            Step.ABORT,
            Step.NAME,
            Step.LEAVE_DEAF,
        ]

    def test_each_rank_has_its_own_clock(self, ladder):
        ladder.begin(Cause.PERSON, (1,), 0.0)
        ladder.begin(Cause.PERSON, (1, 3), 1.5)
        assert {due.ranks for due in ladder.take_due(2.0)} == {(1,)}
        assert {due.ranks for due in ladder.take_due(3.5)} == {(1,), (3,)}

    def test_a_time_limit_is_shorter_than_the_interrupt_before_it(self, ladder):
        ladder.begin(Cause.PERSON, (1,), 0.0)
        ladder.begin(Cause.LIMIT, (1,), 1.0)
        assert ladder.take_due(1.0) == [Due(Step.ABORT, Cause.LIMIT, (1,))]
        assert ladder.take_due(3.0) == [Due(Step.TIME_OUT, Cause.LIMIT, (1,))]

    def test_an_interrupt_after_the_time_limit_changes_nothing(self, ladder):
        ladder.begin(Cause.LIMIT, (1,), 1.0)
        ladder.begin(Cause.PERSON, (1,), 2.0)
        assert [due.step for due in ladder.take_due(3.0)] == [Step.ABORT, Step.TIME_OUT]

    def test_a_rank_that_was_given_up_begins_no_more(self, ladder):
        ladder.begin(Cause.PERSON, (1,), 0.0)
        ladder.end(1)
        ladder.begin(Cause.LIMIT, (1,), 1.0)
        assert ladder.take_due(100.0) == []


class TestWhereARankIs:
    def test_is_its_innermost_line(self):
        assert place_of(stacks(CELL)) == ": In[4]:7: fit(data)"

    def test_is_told_with_the_line_of_the_cell_that_led_there(self):
        assert place_of(stacks(CELL, LIBRARY)) == (
            ": train.py:12 in step: lib.sleep(30) (called from In[4]:7)"
        )

    def test_is_told_with_the_cell_though_that_was_called_by_others(self):
        assert place_of(stacks(LIBRARY, CELL, LIBRARY)).endswith("(called from In[4]:7)")

    def test_in_a_function_of_an_earlier_cell_is_told_with_the_line_of_the_running_one(self):
        earlier = Frame("solve", "In[2]:3", "lib.solve(a)")
        assert place_of(stacks(CELL, earlier)) == (
            ": In[2]:3 in solve: lib.solve(a) (called from In[4]:7)"
        )

    def test_is_told_with_what_the_kernel_knows(self):
        text = place_of(stacks(CELL, LIBRARY, process_state="T"))
        assert text.endswith("(called from In[4]:7; its process is stopped by a signal)")

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (NoAnswer("the GIL is held."), "the GIL is held"),
            (RankStacks(source="none", note="no py-spy here"), "no py-spy here"),
            (
                RankStacks(source="none", process_state="D"),
                "the kernel waits for a disk, a network file system or swap",
            ),
        ],
    )
    def test_may_be_unknown_for_a_reason(self, answer, reason):
        assert place_of(answer) == f" (where it is, is not known: {reason})"

    def test_may_be_unknown_because_nobody_has_answered(self):
        (text,) = find_places(Answers({}, {1: "its agent is gone"})).values()
        assert text == " (where it is, is not known: its agent is gone)"


def test_ranks_at_the_same_line_share_one_line():
    places = {0: ": In[4]:7: f()", 1: ": In[4]:7: f()", 2: ": In[4]:9: g()"}
    assert name_unanswered({0, 1, 2}, places).splitlines() == [
        "ranks 0-1 have not answered the interrupt for 2 s: In[4]:7: f()",
        "rank 2 has not answered the interrupt for 2 s: In[4]:9: g()",
    ]


def test_healing_is_offered_for_the_deaf_only():
    assert offer_healing((1, 2, 3), with_others=True) == (
        "ranks 1-3 are deaf to the interrupt. %dist_heal --ranks 1-3 kills and replaces them; "
        "the other ranks keep their state"
    )
    assert offer_healing((0,), with_others=False).endswith("kills and replaces it")
