import pytest

from jupyter_dist.coordinator.observation.hang_watch import ASK_INTERVAL_S, HangWatch
from jupyter_dist.coordinator.observation.rank_queries import Answers
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import NoAnswer, ReadStacks

SLEEP = Frame("<module>", "In[3]:7", "time.sleep(60)")
LOAD = Frame("load", "In[2]:4", "parse(row)")


class Asked:
    """Questions that are answered when a test says so."""

    def __init__(self):
        self.ranks, self.times_s, self._waiting = [], [], []

    def ask(self, ranks, about, timeout_s, now_s, on_answered):
        assert about == ReadStacks()
        assert timeout_s == 1.0
        self.ranks.append(tuple(ranks))
        self.times_s.append(now_s)
        self._waiting.append(on_answered)

    def answer(self, answers=None, problems=None):
        self._waiting.pop()(Answers(answers or {}, problems or {}))


class Watched:
    """Two ranks of a running cell, on one host, and the watch that looks at them."""

    def __init__(self, roster, tells_slowest=False):
        self.roster, self.asked = roster, Asked()
        self.watch = HangWatch((0, 1), roster, self.asked, tells_slowest=tells_slowest)
        self.statuses, self.errors = {}, {}
        for rank in (0, 1):
            roster[rank].start_work("In[3]", 0.0)

    def sample(self, engine, seconds=None, **more):
        """Let an agent tell of a rank; `seconds` it has been in a barrier, if it is in one."""
        sample = pb.EngineSample(engine=str(engine), **more)
        if seconds is not None:
            call = pb.Collective(sequence=9, operation="barrier", seconds=seconds, is_running=True)
            sample.collective.CopyFrom(call)
        self.roster.take_telemetry("a", pb.Telemetry(engines=[sample]))

    def look(self, now_s):
        return self.watch.look(self.statuses, self.errors, now_s)

    def wait_until(self, last_s):
        """Let rank 0 wait in a barrier from 0 s on, and look four times a second; last verdict."""
        for quarter in range(int(last_s * 4) + 1):
            self.sample(0, quarter / 4)
            verdict = self.look(quarter / 4)
        return verdict


def told(*frames, source="python", **more):
    return RankStacks(source, (ThreadStack("MainThread", True, frames),), **more)


@pytest.fixture
def two(cluster):
    return Watched(cluster.roster)


def test_a_hang_is_told_as_soon_as_patience_is_over(two):
    assert two.wait_until(2.75).text == ""
    verdict = two.wait_until(3.0)
    assert "barrier #9 for 3 s" in verdict.text


def test_who_has_just_been_seen_to_be_missing_may_have_been_looked_at_later(two):
    for rank in (0, 1):
        two.sample(rank, 5.0)
    assert two.look(5.0).text == ""
    two.sample(1)
    assert [bool(two.look(now_s).text) for now_s in (5.25, 5.5, 5.9)] == [False, False, True]


def test_the_more_rarely_hosts_are_looked_at_the_longer_that_may_be(two):
    two.roster.look_interval_s = 2.5
    for rank in (0, 1):
        two.sample(rank, 9.0)
    assert two.look(9.0).text == ""
    two.sample(1)
    times_s = (9.25, 10.0, 12.2, 12.3)
    assert [bool(two.look(now_s).text) for now_s in times_s] == [False, False, False, True]


def test_what_a_rank_does_that_others_wait_for_is_asked_in_time(two):
    two.wait_until(1.0)
    assert two.asked.ranks == [(1,)]
    two.asked.answer({1: told(SLEEP)})
    two.sample(1, state="S")
    verdict = two.wait_until(3.0)
    assert "In[3]:7 (`time.sleep(60)`)" in verdict.text
    assert verdict.kind == "straggler"


def test_questions_are_asked_one_after_the_other_and_not_too_often(two):
    two.wait_until(6.0)
    assert two.asked.times_s == [1.0], "nobody has answered yet"
    two.asked.answer({1: told(SLEEP)})
    for now_s in (6.1, 6.2, 8.2, 8.3):
        two.sample(0, now_s)
        two.look(now_s)
    assert two.asked.times_s == [1.0, 6.1]
    two.asked.answer({1: told(SLEEP)})
    two.look(6.1 + ASK_INTERVAL_S)
    assert len(two.asked.times_s) == 3


def test_ranks_that_compute_for_long_are_asked_more_rarely(two):
    times_s = []
    for second in range(200):
        two.look(float(second))
        if len(two.asked.times_s) > len(times_s):
            times_s.append(second)
            two.asked.answer({0: told(LOAD), 1: told(LOAD)})
    assert times_s[:2] == [3, 5]
    assert times_s[-1] - times_s[-2] == 5


def test_a_short_cell_is_not_disturbed(two):
    for second in range(3):
        two.look(float(second))
    assert two.asked.ranks == []


def test_how_long_a_stack_has_been_the_same_is_known_from_looks_only(two):
    two.statuses[0] = "ok"
    two.sample(1, state="S")
    for second in range(3, 20):
        text = two.look(float(second)).text
        if text:
            break
        if two.watch._is_asking:
            two.asked.answer({1: told(Frame("<module>", "In[3]:7", "lock.acquire()"))})
    assert text.endswith("In[3]:7 (`lock.acquire()`), for 10 s")
    assert second == 3 + 11, "seen since the third second, every two seconds"


@pytest.mark.parametrize(
    ("answers", "problems", "is_held"),
    [
        ({1: told(LOAD, source="faulthandler", process_state="R")}, {}, True),
        ({}, {1: "it has not answered for 1 s"}, True),
        ({1: NoAnswer("it has too many questions to answer")}, {}, False),
        ({1: told(SLEEP)}, {}, False),
    ],
)
def test_a_rank_that_does_not_answer_itself_is_unresponsive(two, answers, problems, is_held):
    two.wait_until(1.0)
    two.sample(1, state="S")
    two.look(1.0)
    two.asked.answer(answers, problems)
    assert ("native code" in two.wait_until(3.0).text) == is_held


def test_a_stopped_process_is_told_with_the_way_to_let_it_go_on(two):
    for now_s in (1.0, 2.0):
        two.sample(1, state="T")
        verdict = two.look(now_s)
    assert "`kill -CONT 101` on a" in verdict.text


@pytest.mark.parametrize("has_come", [False, True])
def test_a_stack_is_forgotten_when_it_is_old_or_its_rank_has_come(two, has_come):
    two.wait_until(1.0)
    two.asked.answer({1: told(SLEEP)})
    if has_come:
        two.sample(1, 0.5)
        two.look(1.5)
        two.sample(1)
    assert ("In[3]:7" in two.wait_until(3.0).text) != has_come
    two.sample(0, 8.0)
    assert "In[3]:7" not in two.look(8.0).text


def test_how_others_ended_is_part_of_the_verdict(two):
    two.statuses[1], two.errors[1] = "raised", "ValueError: boom"
    verdict = two.wait_until(3.0)
    assert "rank 1 raised ValueError: boom" in verdict.text
    assert verdict.kind == "hang"


def test_silent_hosts_are_told(two):
    for rank in (0, 1):
        two.roster[rank].beat_age_s = 4.0
    verdict = two.look(5.0)
    assert verdict.text.startswith("host a ")
    assert verdict.text.endswith(" 4 s (ranks 0-1)")


def test_an_answer_after_the_end_of_the_cell_is_harmless(two):
    two.wait_until(1.0)
    two.statuses.update({0: "ok", 1: "ok"})
    assert two.look(1.5).text == ""
    two.asked.answer({1: told(SLEEP)})
    assert two.look(2.0).text == ""


def test_a_rank_with_a_task_is_not_asked_for_its_stack_but_named_with_the_task(two):
    two.roster.start_task(1, "apply train", -2.0)
    assert "(apply train) for 6 s" in two.wait_until(4.0).text
    assert two.asked.ranks == []


@pytest.mark.parametrize("is_wanted", [True, False])
def test_of_a_cell_that_runs_for_minutes_the_slowest_rank_is_told(cluster, is_wanted):
    two = Watched(cluster.roster, is_wanted)
    for quarter in range(4 * 70):
        two.sample(0, 0.1)
        verdict = two.look(quarter / 4)
        assert not verdict.text or quarter > 4 * 59
    assert ("rank 1 is slowest" in verdict.text) == is_wanted
    assert verdict.kind != "hang"
