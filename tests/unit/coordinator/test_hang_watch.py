import pytest

from jupyter_dist.coordinator.hang_watch import ASK_INTERVAL_S, HangWatch
from jupyter_dist.coordinator.questions import Answers
from jupyter_dist.model.stacks import Frame, RankStacks, ThreadStack
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

    def __init__(self, roster):
        self.roster, self.asked = roster, Asked()
        self.watch = HangWatch((0, 1), roster, self.asked)
        self.statuses, self.errors = {}, {}
        for rank in (0, 1):
            roster.start_work(rank, "In[3]", 0.0)

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
    assert verdict.text == "rank 0 waits in barrier #9 for 3 s; rank 1 has not called it yet"


def test_who_has_just_been_seen_to_be_missing_may_have_been_looked_at_later(two):
    for rank in (0, 1):
        two.sample(rank, 5.0)
    assert two.look(5.0).text == ""
    two.sample(1)
    assert two.look(5.25).text == ""
    assert two.look(5.5).text == ""
    assert "rank 1 has not called it yet" in two.look(5.9).text


def test_what_a_rank_does_that_others_wait_for_is_asked_in_time(two):
    two.wait_until(1.0)
    assert two.asked.ranks == [(1,)]
    two.asked.answer({1: told(SLEEP)})
    two.sample(1, state="S")
    verdict = two.wait_until(3.0)
    assert "it sleeps at In[3]:7 (`time.sleep(60)`)" in verdict.text
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
    texts = []
    for second in range(3, 20):
        texts.append(two.look(float(second)).text)
        if len(two.asked.times_s) > 0 and two.watch._is_asking:
            two.asked.answer({1: told(Frame("<module>", "In[3]:7", "lock.acquire()"))})
    first = next(text for text in texts if text)
    assert (
        first
        == "rank 1 does not go on: it waits for a lock at In[3]:7 (`lock.acquire()`), for 10 s"
    )
    assert texts.index(first) == 11, "seen since the third second, every two seconds"


def test_a_rank_that_was_looked_at_from_outside_is_deaf(two):
    two.wait_until(1.0)
    two.asked.answer({1: told(LOAD, source="faulthandler", process_state="R")})
    two.sample(1, state="R", cpu_percent=100.0)
    text = two.wait_until(3.0).text
    assert "native code seems to hold it at In[2]:4 in load (`parse(row)`), 100% CPU" in text


def test_a_rank_that_nobody_could_look_at_is_deaf_if_it_runs(two):
    two.wait_until(1.0)
    two.sample(1, state="S")
    two.look(1.0)
    two.asked.answer(problems={1: "it has not answered for 1 s"})
    assert "native code seems to hold it" in two.wait_until(3.0).text


def test_a_rank_that_answers_something_else_is_not_deaf(two):
    two.wait_until(1.0)
    two.sample(1, state="S")
    two.asked.answer({1: NoAnswer("it has too many questions to answer")})
    assert two.wait_until(3.0).text.endswith("rank 1 has not called it yet")


def test_a_stopped_process_is_told_with_the_way_to_let_it_go_on(two):
    for now_s in (1.0, 2.0):
        two.sample(1, state="T")
        text = two.look(now_s).text
    assert text == (
        "rank 1 does not go on: its process is stopped (`kill -CONT 101` on a lets it go on)"
    )


def test_an_old_stack_is_forgotten(two):
    two.wait_until(1.0)
    two.asked.answer({1: told(SLEEP)})
    assert "sleeps" in two.wait_until(6.0).text
    two.sample(0, 8.0)
    assert two.look(8.0).text.endswith("rank 1 has not called it yet")


def test_the_stack_of_a_rank_that_came_is_forgotten(two):
    two.wait_until(1.0)
    two.asked.answer({1: told(SLEEP)})
    two.sample(1, 0.5)
    two.look(1.5)
    two.sample(1)
    assert two.wait_until(3.0).text.endswith("rank 1 has not called it yet")


def test_how_others_ended_is_part_of_the_verdict(two):
    two.statuses[1], two.errors[1] = "raised", "ValueError: boom"
    verdict = two.wait_until(3.0)
    assert verdict.text.endswith("; rank 1 raised ValueError: boom; ■ releases them")
    assert verdict.kind == "hang"


def test_silent_hosts_are_told(two):
    for rank in (0, 1):
        two.roster[rank].beat_age_s = 4.0
    assert two.look(5.0).text == "host a has not been heard for 4 s (ranks 0-1)"


def test_an_answer_after_the_end_of_the_cell_is_harmless(two):
    two.wait_until(1.0)
    two.statuses.update({0: "ok", 1: "ok"})
    assert two.look(1.5).text == ""
    two.asked.answer({1: told(SLEEP)})
    assert two.look(2.0).text == ""


def test_a_rank_with_a_task_is_not_asked_for_its_stack_but_named_with_the_task(two):
    two.roster.start_task(1, "apply train", -2.0)
    verdict = two.wait_until(4.0)
    assert "rank 1 has not called it yet: it runs an ipyparallel task (apply train) for 6 s" in (
        verdict.text
    )
    assert two.asked.ranks == []
