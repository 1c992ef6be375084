import threading

import msgspec
import pytest
from fakes.asked_line import AskedLine
from fakes.named import names, number

from jupyter_dist.cluster.variables import rank_queries as questions
from jupyter_dist.cluster.variables.rank_queries import (
    ask_completions,
    ask_explanation,
    ask_inspection,
    ask_ranks,
    ask_stacks,
    ask_who,
)
from jupyter_dist.errors import ClusterGone, DistError, UsageError
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.protocol.messages import (
    AskRanks,
    CompleteCode,
    Completions,
    Explain,
    Explained,
    Inspection,
    InspectName,
    ListNames,
    NoAnswer,
    RanksAnswered,
    ReadStacks,
)
from tests.patience import within


def line_with(answers=None, problems=None):
    """Answers for ranks."""
    return AskedLine(RanksAnswered("r1", answers or {}, problems or {}))


def stack(*sites):
    """What a rank does whose main thread is in these places."""
    frames = tuple(Frame("<module>", site) for site in sites)
    return RankStacks(threads=(ThreadStack("MainThread", True, frames),))


def test_a_rank_that_could_not_find_out_is_a_problem_like_one_that_is_silent():
    line = line_with({0: Inspection({}), 1: NoAnswer("gone")}, {2: "lost"})
    answers, problems = ask_ranks(line, InspectName("x"), (0, 1, 2), 2.0)
    assert answers == {0: Inspection({})}
    assert problems == {1: "gone", 2: "lost"}


def test_the_coordinator_has_more_time_than_the_ranks():
    line = line_with()
    ask_ranks(line, ReadStacks(), None, 2.0)
    ((request, timeout_s),) = line.asked
    assert request == AskRanks("r1", ReadStacks(), None, 2.0)
    assert timeout_s > 2.0


def test_variables_of_all_ranks_come_as_one_table():
    line = line_with({0: names(number("a", 1)), 1: names(number("a", 2))}, {2: "lost"})
    table = ask_who(line, (), None)
    assert [row.remark for row in table.rows] == ["differs: 1 on rank 0, 2 on rank 1"]
    assert [note.split(" from ")[1] for note in table.notes] == ["rank 2: lost"]


def test_of_many_variables_the_largest_of_each_rank_come_first():
    sizes = {"small": 8, "unknown": -1, "huge": 8000, "large": 800}
    infos = [msgspec.structs.replace(number(n, 1), nbytes=size) for n, size in sizes.items()]
    line = line_with({0: names(*infos)})
    table = ask_who(line, (), None, largest=2)
    assert [row.name for row in table.rows] == ["huge", "large"]
    assert table.notes[0].startswith("rank 0: 2 ")


@pytest.mark.parametrize(("given", "sent"), [((), ()), ("w*", ("w*",)), (["a", "b?"], ("a", "b?"))])
def test_one_pattern_may_be_given_as_text(given, sent):
    line = line_with()
    ask_who(line, given, (1,))
    ((request, _),) = line.asked
    assert (request.about, request.ranks) == (ListNames(sent), (1,))


@pytest.mark.parametrize("given", ["", [""], [3]])
def test_patterns_that_cannot_be_meant_are_refused_before_anybody_is_asked(given):
    line = line_with()
    with pytest.raises(UsageError, match="patterns"):
        ask_who(line, given, None)
    assert line.asked == []


def test_ranks_that_nobody_could_look_at_are_named_with_the_reason():
    line = line_with({1: stack("In[1]:2")}, {0: "gone"})
    stacks = ask_stacks(line, None, is_native=False)
    assert list(stacks) == [0, 1]
    assert stacks[0] == RankStacks("none", note="gone")
    assert stacks[1].main.frames[0].site == "In[1]:2"
    assert str(stacks).splitlines()[0] == "rank 0 (gone)"


def test_native_stacks_have_more_time():
    line = line_with()
    ask_stacks(line, None, is_native=False)
    ask_stacks(line, None, is_native=True)
    (plain, _), (native, _) = line.asked
    assert (plain.about, native.about) == (ReadStacks(False), ReadStacks(True))
    assert native.timeout_s > plain.timeout_s


def test_stacks_as_text_have_ranks_that_do_the_same_together():
    line = line_with({rank: stack("In[1]:2" if rank != 2 else "In[1]:9") for rank in range(4)})
    text = str(ask_stacks(line, None, is_native=False))
    assert text.splitlines() == ["rank 2", "  In[1]:9", "ranks 0-1,3", "  In[1]:2"]


def test_completions_are_those_of_the_rank_that_was_asked():
    found = Completions(("weights",), 0, 2)
    line = line_with({3: found})
    assert ask_completions(line, "we", 2, 3) == found
    ((request, timeout_s),) = line.asked
    assert (request.about, request.ranks) == (CompleteCode("we", 2), (3,))
    assert request.timeout_s <= timeout_s <= questions.TYPING_TIMEOUT_S


@pytest.mark.parametrize(
    "line",
    [
        line_with({}, {0: "it is busy"}),
        line_with({0: NoAnswer("it broke")}),
        line_with({0: Inspection({})}),
        AskedLine(ClusterGone("demo", "it has not answered for 0.5 s")),
        AskedLine(DistError("64 questions are open")),
    ],
)
def test_who_types_sees_no_error_but_nothing(line):
    assert ask_completions(line, "we", 2, 0) == Completions((), 2, 2)
    assert ask_inspection(line, "we", 0, 0) == {}


def test_who_types_does_not_wait_for_a_line_that_is_in_use(monkeypatch):
    monkeypatch.setattr(questions, "TYPING_TIMEOUT_S", 0.05)
    line = line_with({0: Completions(("weights",), 0, 2)})
    is_held, is_over = threading.Event(), threading.Event()

    def hold():
        with line.lock:
            is_held.set()
            is_over.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert is_held.wait(10)
        with within(5):
            assert ask_completions(line, "we", 2, 0) == Completions((), 2, 2)
        assert line.asked == []
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize(
    "line", [line_with({0: Inspection({"text/plain": "x"})}), AskedLine(DistError("no"))]
)
def test_the_line_is_free_again_after_an_answer_and_after_none(line):
    acquired = []
    ask_inspection(line, "x", 0, 1)
    thread = threading.Thread(target=lambda: acquired.append(line.lock.acquire(timeout=0)))
    thread.start()
    thread.join()
    assert acquired == [True]


def test_an_object_is_described_by_the_rank():
    line = line_with({0: Inspection({"text/plain": "an array"})})
    assert ask_inspection(line, "w", 0, 1) == {"text/plain": "an array"}
    assert line.asked[0][0].about == InspectName("w", 1)


def explained(verdict="", cell="", *crashes):
    line = AskedLine(Explained("r1", cell, verdict, crashes))
    text = ask_explanation(line, 4)
    assert line.asked[0][0] == Explain("r1")
    return text.splitlines()


def crash(rank, reason="killed", **more):
    return CrashReport(rank=rank, host="a", reason=reason, **more)


@pytest.mark.parametrize(
    ("verdict", "cell", "begin"),
    [("", "", "no cell runs"), ("", "In[3]", "In[3] runs"), ("rank 1", "In[3]", "In[3]: rank 1")],
)
def test_the_verdict_comes_with_its_cell_and_nothing_odd_is_said_to_be_so(verdict, cell, begin):
    (line,) = explained(verdict, cell)
    assert line.startswith(begin)
    assert ("odd" in line) != bool(verdict)


def test_lost_ranks_are_told_of_with_the_ways_out():
    *what, ways = explained("", "", crash(2))
    assert [line.rpartition(": ")[2] for line in what] == ["no cell runs", "killed"]
    assert what[1].startswith("rank 2 ")
    commands = [way.split(" ")[0] for way in ways.split("; ")]
    assert commands == ["%dist_heal", "%dist_shrink", "%%spmd"]
    assert "--ranks 0-1,3 " in ways


def test_ranks_that_were_lost_in_one_way_are_told_of_together():
    gone = "the agent of host b is gone"
    _, first, second, ways = explained("", "", crash(0), crash(2, gone), crash(3, gone))
    assert first.startswith("rank 0 ")
    assert (second[:10], second.rpartition(": ")[2]) == ("ranks 2-3 ", gone)
    assert ways.startswith("%dist_heal ")
    assert "--ranks 1 " in ways


def test_without_a_survivor_healing_is_the_only_way():
    (way,) = explained("", "", *map(crash, range(4)))[-1].split("; ")
    assert way.startswith("%dist_heal ")


def test_what_is_done_without_asking_takes_the_place_of_the_ways_out():
    outlook = "rank 2 is lost, and with it the cluster ends (--on-loss stop)"
    assert explained("", "", crash(2, outlook=outlook))[-1] == outlook
    assert explained("rank 0 waits", "In[3]", crash(2, outlook=outlook))[-1] == outlook


def test_once_that_has_failed_the_ways_out_are_told():
    *_, ways = explained("healing has failed: no host", "", crash(2, outlook="it will be replaced"))
    assert ways.startswith("%dist_heal ")
