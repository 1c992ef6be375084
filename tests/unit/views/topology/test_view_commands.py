"""Requests of views, obeyed for a cluster that only pretends."""

import threading

import pytest
from fakes.view_replies import Replies

from jupyter_dist.errors import ClusterGone, HealFailed, UsageError
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.views.topology import view_commands
from jupyter_dist.views.topology.view_commands import (
    KINDS,
    MOST_CHARACTERS,
    MOST_KEPT,
    MOST_RUNNING,
    ViewCommands,
)

STACK = RankStacks(threads=(ThreadStack("MainThread", True, (Frame("<module>", "In[3]:7"),)),))
GONE = ClusterGone("demo", "its coordinator has ended")


class FakeCluster:
    """Says what the test wants, and remembers what it was asked."""

    name, world_size = "demo", 3

    def __init__(self):
        self.asked = []
        self.busy = (0, 1, 2)
        self.problem = None
        self.gate = threading.Event()
        self.gate.set()

    def _ask(self, *what):
        self.asked.append(what)
        self.gate.wait(10)
        if self.problem is not None:
            raise self.problem

    def interrupt(self, ranks=None):
        self.asked.append(("interrupt", ranks))
        if self.problem is not None:
            raise self.problem
        return self.busy

    def stacks(self, ranks=None):
        self._ask("stacks", ranks)
        return dict.fromkeys(ranks or range(3), STACK)

    def explain(self):
        self._ask("explain")
        return "In[3]: rank 2\n%dist_heal"

    def heal(self, ranks=None, *, on_stage):
        self._ask("heal", ranks)
        on_stage("In[3] ends")
        on_stage("rank 2 replaced, joining…")
        return "replaced rank 2 on node-a"

    def stop(self):
        self._ask("stop")


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def commands(cluster):
    return ViewCommands(cluster)


@pytest.fixture
def replies():
    return Replies()


def ask(commands, replies, kind, request_id="a", **more):
    commands.take({"id": request_id, "kind": kind, **more}, replies.take)


def test_an_interrupt_is_answered_with_the_ranks_that_were_signalled(commands, cluster, replies):
    ask(commands, replies, "interrupt", "x1")
    assert replies.wait() == [
        {"kind": "reply", "id": "x1", "ok": True, "text": "ranks 0-2 signalled", "is_final": True}
    ]
    cluster.busy = ()
    ask(commands, replies, "interrupt", "x2", ranks=[1])
    assert "rank" not in replies.wait(2)[-1]["text"]
    assert cluster.asked == [("interrupt", None), ("interrupt", (1,))]


def test_stacks_and_explanations_come_as_sections(commands, replies):
    ask(commands, replies, "stacks", ranks=[0, 2])
    first, last = replies.wait()
    assert (first["is_final"], first["ok"]) == (False, True)
    assert last["text"].endswith("ranks 0,2")
    assert last["sections"] == [{"title": "stacks", "text": "ranks 0,2\n▶ In[3]:7\n"}]
    ask(commands, replies, "explain", "b")
    last = replies.wait(2)[-1]
    assert last["text"] == "see below", "the picture says it already"
    assert last["sections"][0]["text"] == "In[3]: rank 2\n%dist_heal"


def test_healing_tells_its_stages(commands, cluster, replies):
    ask(commands, replies, "heal", ranks=[2])
    told = replies.wait()
    assert [reply["text"] for reply in told[1:]] == [
        "In[3] ends",
        "rank 2 replaced, joining…",
        "replaced rank 2 on node-a",
    ]
    assert [reply["is_final"] for reply in told] == [False, False, False, True]
    assert cluster.asked == [("heal", (2,))]


def test_a_stop_is_answered_before_and_after(commands, replies):
    ask(commands, replies, "stop")
    assert [(reply["is_final"], reply["ok"]) for reply in replies.wait()] == [
        (False, True),
        (True, True),
    ]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rank"])
@pytest.mark.parametrize(
    "problem", [GONE, HealFailed("no room"), UsageError("every rank is there")]
)
def test_what_the_cluster_cannot_do_is_answered_with_the_reason(
    commands, cluster, replies, kind, problem
):
    cluster.problem = problem
    ask(commands, replies, kind)
    last = replies.wait()[-1]
    assert (last["ok"], last["text"]) == (False, str(problem))


def test_a_request_is_obeyed_once_and_its_replies_reach_everybody_who_has_sent_it(
    commands, cluster, replies
):
    cluster.gate.clear()
    other = Replies()
    ask(commands, replies, "stacks", "x1")
    ask(commands, replies, "stacks", "x1")
    ask(commands, other, "stacks", "x1")
    cluster.gate.set()
    assert other.wait() == replies.wait()
    late = Replies()
    ask(commands, late, "stacks", "x1")
    assert late.wait() == replies
    assert [reply["is_final"] for reply in replies] == [False, True]
    assert cluster.asked == [("stacks", None)]


def test_an_interrupt_waits_for_no_other_request(commands, cluster, replies):
    cluster.gate.clear()
    slow = Replies()
    for number in range(MOST_RUNNING):
        ask(commands, slow, "heal", f"h{number}")
    ask(commands, replies, "stacks", "one too many")
    assert not replies.wait()[0]["ok"]
    assert str(MOST_RUNNING) in replies[0]["text"]
    ask(commands, replies, "interrupt", "x")
    assert replies.wait(2)[-1]["text"] == "ranks 0-2 signalled"
    cluster.gate.set()
    slow.wait(MOST_RUNNING)
    ask(commands, replies, "stacks", "now there is room")
    assert replies.wait(3)[-1]["ok"]


def test_only_so_many_requests_are_remembered_and_never_one_forgotten_that_is_under_way(
    commands, cluster, replies
):
    cluster.gate.clear()
    ask(commands, replies, "heal", "slow")
    quick = Replies()
    for number in range(MOST_KEPT + 10):
        ask(commands, quick, "interrupt", f"i{number}")
        quick.wait(number + 1)
    assert len(commands._kept) <= MOST_KEPT + 1
    ask(commands, Replies(), "heal", "slow")
    cluster.gate.set()
    replies.wait()
    assert [what for what in cluster.asked if what[0] == "heal"] == [("heal", None)]


@pytest.mark.parametrize("request_id", [None, "", 7, "x" * 101])
def test_a_request_without_a_usable_id_is_refused(commands, cluster, replies, request_id):
    ask(commands, replies, "interrupt", request_id)
    (reply,) = replies.wait()
    assert (reply["ok"], reply["id"]) == (False, "")
    assert repr(request_id) in reply["text"]
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"kind": "explode"}, "'explode'"),
        ({}, "None"),
        ({"kind": "stacks", "ranks": "0-2"}, "'0-2'"),
        ({"kind": "heal", "ranks": [True]}, "[True]"),
        ({"kind": "heal", "ranks": [[0]]}, "[[0]]"),
        ({"kind": "rank", "rank": 3}, "3"),
        ({"kind": "rank", "rank": "1"}, "1"),
        ({"kind": "rank"}, "None"),
    ],
)
def test_what_cannot_be_meant_is_refused_naming_what_is_accepted(
    commands, cluster, replies, request_, words
):
    commands.take({"id": "a", **request_}, replies.take)
    last = replies.wait()[-1]
    assert not last["ok"]
    assert words in last["text"]
    assert cluster.asked == []


def test_a_rank_is_told_of_part_by_part(commands, replies, monkeypatch):
    def gather(_cluster, rank):
        yield {"stack": f"of {rank}"}
        yield {"stack": f"of {rank}", "variables": "x"}

    monkeypatch.setattr(view_commands, "gather_rank_report", gather)
    ask(commands, replies, "rank", rank=2)
    told = replies.wait()
    assert [len(reply["sections"]) for reply in told] == [1, 2, 2]
    assert told[-1]["sections"][1] == {"title": "variables", "text": "x"}
    late = Replies()
    ask(commands, late, "rank", rank=2)
    assert late.wait() == told[-1:]


def test_of_a_very_long_text_the_middle_is_left_out(commands, cluster, replies, monkeypatch):
    monkeypatch.setattr(cluster, "explain", lambda: "begin" + "x" * 10**6 + "end")
    ask(commands, replies, "explain")
    text = replies.wait()[-1]["sections"][0]["text"]
    assert len(text) < 201_000
    assert text.startswith("begin")
    assert text.endswith("end")
    assert f"{10**6 + 8 - MOST_CHARACTERS:,}" in text


def test_a_fault_of_ours_is_answered_too_and_not_hidden(commands, cluster, replies, monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_type))
    monkeypatch.setattr(cluster, "explain", lambda: 1 / 0)
    ask(commands, replies, "explain")
    assert "ZeroDivisionError" in replies.wait()[-1]["text"]
    for thread in threading.enumerate():
        if thread.name == "jupyter-dist-view-request":
            thread.join(5)
    assert raised == [ZeroDivisionError]
