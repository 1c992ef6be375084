"""The parts of a report about one rank: what they say, and that none holds another up."""

import threading

import pytest
from fakes.named import names, number
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.cells.followed_cells import Replay
from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.variables.names_table import tabulate_names
from jupyter_dist.errors import ClusterGone, DistError, UsageError
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.protocol.messages import (
    ErrorInfo,
    KeptCell,
    Output,
    RankFinished,
    RankOutput,
)
from jupyter_dist.views.topology.rank_report import (
    MOST_CALLS,
    collectives_of_rank_text,
    gather_rank_report,
    last_lines_text,
)

STACK = RankStacks(threads=(ThreadStack("MainThread", True, (Frame("<module>", "In[3]:7"),)),))
CELL = KeptCell("cell-3", "In[3]", "train()", (0, 1), 0.0, is_running=True)
TITLES = ["stack", "last lines", "collectives", "variables"]


class FakeCluster:
    """Answers at once, unless a test holds an answer back or makes it fail."""

    def __init__(self):
        self.problems = {}
        self.held = {}

    def _answer(self, what, answer):
        if what in self.held:
            self.held[what].wait(10)
        if what in self.problems:
            raise self.problems[what]
        return answer

    def stacks(self, ranks):
        return self._answer("stacks", dict.fromkeys(ranks, STACK))

    def replay(self):
        return self._answer("replay", Replay(CELL, (said(1, "epoch 1\n"),)))

    def collectives(self, last):
        assert last == MOST_CALLS
        return self._answer("collectives", CollectiveLog((), {"node-a": "gone"}, 2))

    def who(self, *, ranks, largest):
        table = tabulate_names(dict.fromkeys(ranks, names(number("loss", 7))), {})
        return self._answer("who", table)


@pytest.fixture
def cluster():
    return FakeCluster()


def said(by, text, kind="stdout"):
    return RankOutput((by,), (Output(kind, text),))


# --- the whole ---


def test_the_report_has_all_parts_in_their_order(cluster):
    *_, last = gather_rank_report(cluster, 1)
    assert list(last) == TITLES
    assert "In[3]:7" in last["stack"]
    assert "epoch 1" in last["last lines"]
    assert last["collectives"].endswith("node-a: gone")
    assert "loss" in last["variables"]


@pytest.mark.parametrize("slow", ["stacks", "replay", "collectives", "who"])
def test_a_slow_part_holds_no_other_up(cluster, slow):
    cluster.held[slow] = threading.Event()
    title = dict(zip(["stacks", "replay", "collectives", "who"], TITLES, strict=True))[slow]
    report = gather_rank_report(cluster, 1, patience_s=10)
    sizes = [len(next(report)) for _ in range(3)]
    assert sizes == [1, 2, 3]
    cluster.held[slow].set()
    (last,) = report
    assert list(last) == TITLES
    assert not last[title].startswith("not known: no answer")


def test_what_does_not_come_in_time_is_said_to_be_so(cluster):
    cluster.held["who"] = threading.Event()
    *_, last = gather_rank_report(cluster, 1, patience_s=0.3)
    cluster.held["who"].set()
    assert list(last) == TITLES
    assert "0.3 s" in last["variables"]


def test_a_part_that_cannot_be_had_says_why_and_the_others_are_there(cluster):
    cluster.problems["replay"] = UsageError("no cell")
    *_, last = gather_rank_report(cluster, 1)
    assert last["last lines"].endswith(": no cell")
    assert "In[3]:7" in last["stack"]


def test_a_cluster_that_is_gone_is_an_error_and_not_four_parts(cluster):
    gone = ClusterGone("demo", "its coordinator has ended")
    cluster.problems = dict.fromkeys(["stacks", "replay", "collectives", "who"], gone)
    with pytest.raises(ClusterGone, match="has ended"):
        list(gather_rank_report(cluster, 1))
    cluster.problems["who"] = DistError("too busy")
    *_, last = gather_rank_report(cluster, 1)
    assert "too busy" in last["variables"]


# --- last lines ---


def test_the_last_twenty_lines_of_this_rank_only_are_told():
    mine = [said(1, f"line {number}\n") for number in range(30)]
    text = last_lines_text(Replay(CELL, (said(0, "of another\n"), *mine)), 1)
    assert text.splitlines() == ["In[3]: running", *(f"line {n}" for n in range(10, 30))]


def test_lines_look_as_in_a_terminal_but_without_colours():
    events = (said(1, "\x1b[31mred\x1b[0m\n 50%\r100%\n", "stderr"), said(1, "no end"))
    text = last_lines_text(Replay(CELL, events), 1)
    assert text.splitlines()[1:] == ["red", "100%", "no end"]


def test_a_rich_output_is_told_as_its_text():
    picture = Output("display", data={"image/png": b"x", "text/plain": "<Figure>"})
    text = last_lines_text(Replay(CELL, (RankOutput((1,), (picture,)),)), 1)
    assert text.splitlines()[1:] == ["<Figure>"]


def test_of_a_very_long_output_the_end_is_read():
    events = tuple(said(1, f"{'x' * 1000} {number}\n") for number in range(2000))
    assert last_lines_text(Replay(CELL, events), 1).endswith("x 1999")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (RankFinished(1, "ok", 2.5), "In[3]: ok after 2.5 s"),
        (
            RankFinished(1, "raised", 0.5, error=ErrorInfo("ValueError", "no")),
            "In[3]: raised after 500 ms: ValueError: no",
        ),
    ],
)
def test_it_is_told_how_the_cell_ended_on_the_rank(end, words):
    text = last_lines_text(Replay(CELL, (RankFinished(0, "ok", 1), end)), 1)
    head, nothing = text.splitlines()
    assert head == words
    assert nothing.startswith("(")


def test_of_a_lost_rank_the_card_is_there():
    crash = CrashReport(rank=1, host="node-a", reason="killed by SIGKILL")
    end = RankFinished(1, "lost", 3.0, crash=crash)
    text = last_lines_text(Replay(CELL, (said(1, "last words\n"), end)), 1)
    head, said_last, *_ = text.splitlines()
    assert head.startswith("In[3]: ")
    assert "lost" in head
    assert said_last == "last words"
    assert "rank 1 is lost: killed by SIGKILL" in text


@pytest.mark.parametrize(
    ("is_running", "words"), [(True, "does not run on rank 2"), (False, "ran elsewhere")]
)
def test_a_cell_of_other_ranks_is_said_to_be_one(is_running, words):
    cell = KeptCell("cell-3", "In[3]", "", (0, 1), 0.0, is_running)
    assert last_lines_text(Replay(cell, ()), 2) == f"In[3] {words}"


# --- collectives ---


def test_the_last_calls_tell_how_they_stand():
    calls = [call("barrier", n, 10 * n, 10 * n + 2) for n in range(1, 12)]
    waits = call("all_reduce", 12, 200, 0)
    log = CollectiveLog((host("node-a", rank(1, *calls, waits)),), {}, 2)
    lines = collectives_of_rank_text(log, 1).splitlines()
    assert len(lines) == MOST_CALLS
    assert lines[0].startswith("#3 barrier()")
    assert "took" in lines[0]
    assert lines[-1].startswith("#12 all_reduce(")
    assert "inside for" in lines[-1]


def test_a_rank_without_calls_has_called_nothing():
    log = CollectiveLog((host("node-a", rank(1)),), {}, 2)
    (said,) = collectives_of_rank_text(log, 1).splitlines()
    assert said.startswith("rank 1 ")
