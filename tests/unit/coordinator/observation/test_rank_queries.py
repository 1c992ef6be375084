import re

import msgspec
import pytest

from jupyter_dist.coordinator.observation.rank_queries import MOST_OPEN
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.ranks.stacks import RankStacks, ThreadStack
from jupyter_dist.model.ranks.variable_facts import RankNames
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    Answered,
    AskRanks,
    ListNames,
    Question,
    RanksAnswered,
    ReadStacks,
    Refused,
)

NAMES = RankNames(())
OWN = RankStacks("python", (ThreadStack("MainThread", is_main=True),))
SEEN = RankStacks("faulthandler", (ThreadStack("MainThread", is_main=True),))
STACKS = ReadStacks()
HELD = "native code"


class Desk:
    """Questions about ranks 0-1 on host a and 2-3 on host b; `looks` has what agents are asked."""

    def __init__(self, cluster):
        self.cluster, self.sender = cluster, cluster.sender
        self.questions = cluster.questions
        self.found = []
        self.now_s = 100.0
        for engine in cluster.roster.engines:
            engine.pid = 100 + engine.info.rank

    @property
    def looks(self):
        return self.sender.commanded("dump_stacks")

    def ask(self, about=STACKS, ranks=(0, 1, 2, 3), timeout_s=2.0):
        self.questions.ask(ranks, about, timeout_s, self.now_s, self.found.append)

    @property
    def asked(self):
        """Ranks that were asked, with the id of the question."""
        return [(rank, message.request_id) for rank, message, _ in self.sender.engines]

    def answer(self, rank, answer=OWN, request_id=None):
        request_id = request_id or self.asked[-1][1]
        self.questions.on_answered(Answered(rank, request_id, answer))

    def see(self, host, engine, stacks, request_id=None):
        """Let the agent of a host tell of one of its engines."""
        told = pb.EngineStacks(engine=engine, stacks=msgspec.msgpack.encode(stacks))
        request_id = request_id or self.asked[-1][1]
        dumped = pb.StacksDumped(request_id=request_id, engines=[told])
        self.questions.on_event(host, pb.AgentEvent(stacks_dumped=dumped), self.now_s)

    def wait(self, seconds):
        self.now_s += seconds
        self.questions.tick(self.now_s)

    @property
    def result(self):
        """What came of the only question."""
        (found,) = self.found
        return found


@pytest.fixture
def desk(cluster):
    return Desk(cluster)


# --- what ranks say themselves ---


def test_each_rank_is_asked_and_the_answers_come_in_the_order_of_ranks(desk):
    desk.ask(ListNames())
    assert [rank for rank, _ in desk.asked] == [0, 1, 2, 3]
    assert {message.about for _, message, _ in desk.sender.engines} == {ListNames()}
    for rank in (2, 0, 3):
        desk.answer(rank, NAMES)
    assert desk.found == []
    desk.answer(1, NAMES)
    assert list(desk.result.answers) == [0, 1, 2, 3]
    assert desk.result.problems == {}


def test_several_questions_are_answered_each_by_its_own(desk):
    desk.ask(ListNames(), ranks=(0,))
    desk.ask(ReadStacks(), ranks=(0,))
    (_, first), (_, second) = desk.asked
    desk.answer(0, OWN, second)
    assert [list(found.answers.values()) for found in desk.found] == [[OWN]]
    desk.answer(0, NAMES, first)
    assert [list(found.answers.values()) for found in desk.found] == [[OWN], [NAMES]]


def test_what_comes_twice_too_late_or_to_nobody_is_dropped(desk):
    desk.ask(ListNames(), ranks=(0, 1))
    desk.answer(0, NAMES)
    desk.answer(0, OWN)
    desk.answer(2, NAMES)
    desk.answer(1, NAMES, "question-99")
    desk.wait(2.1)
    assert desk.result.answers == {0: NAMES}
    desk.answer(1, NAMES)
    desk.see("a", "1", SEEN)
    assert len(desk.found) == 1


def test_a_rank_that_keeps_silent_is_named_with_what_may_be_the_reason(desk):
    desk.ask(ListNames(), ranks=(0, 1))
    desk.answer(0, NAMES)
    desk.wait(1.9)
    assert desk.found == []
    desk.wait(0.2)
    assert desk.result.answers == {0: NAMES}
    assert " 2 s: " in desk.result.problems[1]
    assert desk.looks == []


def test_the_reason_is_certain_where_the_process_was_seen(desk):
    for rank, state in enumerate("TD"):
        desk.cluster.roster[rank].sample = pb.EngineSample(engine=str(rank), state=state)
    desk.ask(ListNames(), ranks=(0, 1, 2), timeout_s=0.5)
    desk.wait(0.6)
    stopped, waiting, unsure = desk.result.problems.values()
    assert "stopped" in stopped
    assert HELD not in stopped
    assert " disk " in waiting
    assert HELD in unsure


def test_lost_ranks_and_those_that_are_not_born_are_not_asked(desk):
    desk.cluster.lose(0, "exit code 3")
    desk.cluster.roster[1].pid = 0
    desk.cluster.roster[1].state = type(desk.cluster.roster[1].state).STARTING
    desk.ask(ListNames())
    assert [rank for rank, _ in desk.asked] == [2, 3]
    desk.answer(2, NAMES)
    desk.answer(3, NAMES)
    assert list(desk.result.problems) == [0, 1]
    assert desk.result.problems[0].endswith(": exit code 3")
    desk.found.clear()
    desk.ask(ListNames(), ranks=(0,))
    assert list(desk.result.problems) == [0], "without any to ask the answer comes at once"


def test_a_rank_that_is_lost_or_replaced_meanwhile_is_not_waited_for(desk):
    desk.ask(ListNames(), ranks=(0, 1, 2))
    desk.answer(0, NAMES)
    desk.cluster.roster.lose(1, "killed")
    desk.cluster.roster.replace(2, desk.cluster.roster[2].info)
    desk.wait(0.1)
    assert desk.result.answers == {0: NAMES}
    assert list(desk.result.problems) == [1, 2]
    assert desk.result.problems[1].endswith(": killed")


def test_an_answer_counts_for_the_rank_that_its_engine_was_when_it_was_asked(desk):
    desk.ask(ListNames(), ranks=(2, 3))
    engines = desk.cluster.roster.engines
    engines[2], engines[3] = engines[3], engines[2]
    desk.answer(2, NAMES)
    desk.wait(3)
    assert list(desk.result.answers) == [3]


# --- stacks of ranks that do not answer ---


def test_agents_look_at_ranks_that_have_not_answered_after_half_the_time(desk):
    desk.ask()
    desk.answer(0)
    desk.wait(0.9)
    assert desk.looks == []
    desk.wait(0.2)
    desk.wait(0.1)
    assert [(host, list(look.engines), look.is_native) for host, look in desk.looks] == [
        ("a", ["1"], False),
        ("b", ["2", "3"], False),
    ]
    assert all(0.5 < look.timeout_s < 0.9 for _, look in desk.looks)


def test_a_stopped_process_needs_no_more_waiting(desk):
    desk.ask(ranks=(0,))
    desk.wait(1.1)
    stopped = RankStacks("none", process_state="T", note="its process is stopped")
    desk.see("a", "0", stopped)
    assert desk.result.answers == {0: stopped}


def test_a_rank_may_still_answer_when_its_agent_could_not_look(desk):
    desk.ask(ranks=(0, 1, 2))
    desk.wait(1.1)
    unseen = RankStacks("none", note="user code has a handler of its own")
    desk.see("a", "0", unseen)
    desk.see("a", "1", unseen)
    desk.see("b", "2", SEEN)
    desk.answer(2, OWN)
    assert desk.found == []
    desk.answer(0, OWN)
    desk.wait(1)
    assert desk.result == ({0: OWN, 1: unseen, 2: SEEN}, {})


def test_who_was_seen_by_nobody_is_named(desk):
    desk.ask(ranks=(0,), timeout_s=1)
    desk.wait(0.6)
    desk.wait(0.6)
    assert re.search(f" 1 s: .*{HELD}", desk.result.problems[0])


def test_an_agent_tells_only_of_engines_of_its_host(desk):
    desk.ask(ranks=(0, 3))
    desk.wait(1.1)
    desk.see("b", "0", SEEN)
    desk.see("b", "3", SEEN)
    desk.see("b", "never", SEEN)
    desk.wait(1)
    assert list(desk.result.answers) == [3]


# --- native stacks ---


def test_agents_look_at_all_ranks_at_once_when_native_calls_are_wanted(desk):
    desk.ask(ReadStacks(is_native=True), timeout_s=8)
    assert [(host, list(look.engines), look.is_native) for host, look in desk.looks] == [
        ("a", ["0", "1"], True),
        ("b", ["2", "3"], True),
    ]
    desk.wait(5)
    assert len(desk.looks) == 2


def test_what_agents_see_counts_more_than_what_ranks_say_of_themselves(desk):
    desk.ask(ReadStacks(is_native=True), ranks=(0,), timeout_s=8)
    desk.answer(0, OWN)
    assert desk.found == []
    desk.see("a", "0", SEEN)
    assert desk.result.answers == {0: SEEN}


@pytest.mark.parametrize("is_rank_first", [True, False])
def test_a_rank_tells_what_its_agent_cannot_see_with_the_reason(desk, is_rank_first):
    desk.ask(ReadStacks(is_native=True), ranks=(0,), timeout_s=8)
    unseen = RankStacks("none", note="py-spy is not installed on its host")
    if is_rank_first:
        desk.answer(0, OWN)
    desk.see("a", "0", unseen)
    if not is_rank_first:
        desk.answer(0, OWN)
    told = RankStacks("python", OWN.threads, note=unseen.note)
    assert desk.result.answers == {0: told}


def test_at_the_end_of_the_time_a_rank_is_heard_whose_agent_keeps_silent(desk):
    desk.ask(ReadStacks(is_native=True), ranks=(0,), timeout_s=8)
    desk.answer(0, OWN)
    desk.wait(9)
    assert desk.result == ({0: OWN}, {})


# --- clients ---


def request(desk, request_id="r1", ranks=(0,), timeout_s=2.0, client=b"me"):
    asked = AskRanks(request_id, ListNames(), ranks, timeout_s)
    desk.questions.on_request(client, asked, desk.now_s)


def test_a_client_gets_the_answers_under_its_own_id(desk):
    request(desk)
    request(desk, client=b"you", ranks=None)
    desk.answer(0, NAMES, desk.asked[0][1])
    assert desk.sender.told(RanksAnswered, b"me") == [RanksAnswered("r1", {0: NAMES}, {})]
    for rank in range(4):
        desk.answer(rank, NAMES)
    (answered,) = desk.sender.told(RanksAnswered, b"you")
    assert list(answered.answers) == [0, 1, 2, 3]


def test_too_many_questions_are_refused_until_some_are_answered(desk):
    for number in range(MOST_OPEN):
        request(desk, f"r{number}")
    request(desk, "too many")
    (refused,) = desk.sender.told(Refused)
    assert (refused.request_id, refused.code) == ("too many", ErrorCode.DIST_ERROR)
    assert refused.reason.startswith(f"{MOST_OPEN} ")
    desk.answer(0, NAMES)
    request(desk, "again")
    assert len(desk.sender.told(Refused)) == 1


@pytest.mark.parametrize(
    ("timeout_s", "wait_s"), [(-1.0, 0.1), (float("nan"), 0.1), (0.0, 0.1), (float("inf"), 61.0)]
)
def test_no_question_is_open_for_ever_nor_for_a_time_that_cannot_be_meant(desk, timeout_s, wait_s):
    request(desk, timeout_s=timeout_s)
    ((_, message, _),) = desk.sender.engines
    assert message == Question(desk.asked[0][1], ListNames())
    desk.wait(wait_s)
    assert len(desk.sender.told(RanksAnswered)) == 1


def test_stacks_that_cannot_be_read_are_said_to_be_so(desk):
    desk.ask(ranks=(0,))
    told = pb.EngineStacks(engine="0", stacks=b"\xc1")
    dumped = pb.StacksDumped(request_id=desk.asked[-1][1], engines=[told])
    desk.questions.on_event("a", pb.AgentEvent(stacks_dumped=dumped), desk.now_s)
    desk.wait(10.0)
    (stacks,) = desk.result.answers.values()
    assert (stacks.source, stacks.threads, bool(stacks.note)) == ("none", (), True)
