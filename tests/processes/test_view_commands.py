"""What buttons ask, of real clusters: while ranks compute, stand still, are lost, or all are gone."""

import contextlib
import functools
import os
import signal
import statistics
import threading
import time

import pytest

from jupyter_dist.views.topology.view_commands import ViewCommands
from tests.facts import assert_tells
from tests.patience import Stopwatch
from tests.suspending import resume, suspend

from . import listener
from .held import Native
from .leftovers import coordinator_of, wait_until

WITHIN_S = 3.0
"""What a rank tells is complete after this time, whatever the rank does."""
TITLES = ["stack", "last lines", "collectives", "variables"]
SET_UP = """
import numpy as np
weights = np.ones((300, 300)) * rank
for step in range(3):
    comm.all_reduce(np.ones(4, np.float32))
print('set up', rank)
"""
COMPUTE = """
print('here', rank)
def work():
    while True:
        sum(range(1000))
work()
"""
RAISE_TIME = """
import time
print('here')
try:
    while True:
        time.sleep(60)
except KeyboardInterrupt:
    print(f'signal at {time.monotonic()}')
"""


class Replies(list):
    """What one view hears; other threads wait for it."""

    def __init__(self):
        super().__init__()
        self.news = threading.Condition()

    def take(self, reply):
        """Keep a reply and when it came."""
        with self.news:
            self.append((reply, time.monotonic()))
            self.news.notify_all()

    def wait(self, request_id, is_enough=lambda reply: reply["is_final"], within_s=15.0):
        """Give the first reply that is enough, and when it came."""
        watch = Stopwatch()
        with self.news:
            while (found := self._find(request_id, is_enough)) is None:
                left_s = watch.left_s(within_s)
                assert left_s, f"{request_id} was not answered: {self}"
                self.news.wait(left_s)
            return found

    def _find(self, request_id, is_enough):
        return next((r for r in self if r[0]["id"] == request_id and is_enough(r[0])), None)


class View:
    """A view of a cluster: asks, and waits for answers."""

    def __init__(self, cluster):
        self._commands = ViewCommands(cluster)
        self._replies = Replies()
        self._count = 0

    def send(self, kind, **more):
        """Send a request; gives its id."""
        self._count += 1
        request_id = f"{kind}-{self._count}"
        self._commands.take({"id": request_id, "kind": kind, **more}, self._replies.take)
        return request_id

    def hear(self, request_id, *how, **more):
        """Wait for an answer."""
        return self._replies.wait(request_id, *how, **more)[0]

    def ask(self, kind, **more):
        """Send a request and wait for its final answer."""
        return self.hear(self.send(kind, **more))

    def texts(self, request_id):
        """Give the texts of all replies to a request."""
        return [reply["text"] for reply, _ in self._replies if reply["id"] == request_id]

    def report(self, rank, silent=()):
        """Ask for everything about a rank until it is told; gives the parts by their titles.

        Each report has to be in time: what a busy machine has not told by then it says to be late.
        What a rank does not answer are the `silent` parts.
        """
        watch = Stopwatch()
        while True:
            parts = self._report(rank)
            late = [
                text
                for title, text in parts.items()
                if text.startswith("not known: ")
                or ("not answered" in text and title not in silent)
            ]
            if not late:
                return parts
            assert not watch.is_over(20), late

    def _report(self, rank):
        began_s, watch = time.monotonic(), Stopwatch()
        request_id = self.send("rank", rank=rank)
        reply, came_s = self._replies.wait(request_id)
        watch.assert_less(WITHIN_S, "the report", took_s=came_s - began_s)
        assert reply["ok"], reply
        parts = {part["title"]: part["text"] for part in reply["sections"]}
        assert list(parts) == TITLES
        return parts


@pytest.fixture
def begin(in_background):
    """Begin a cell on a cluster; gives its future when all ranks have said `here`."""

    return functools.partial(listener.begin, in_background, label=7)


def test_every_request_is_answered_while_a_cell_computes(four, begin, within):
    assert four.run(SET_UP, label=6).ok
    view, running = View(four), begin(four, COMPUTE)
    with within(WITHIN_S):
        stacks = view.ask("stacks")
    assert stacks["text"].endswith("ranks 0-3")
    assert "In[7]" in stacks["sections"][0]["text"]
    with within(1):
        (said,) = view.ask("explain")["sections"]
    assert_tells(said["text"], "In[7] runs; nothing")
    parts = view.report(2)
    assert "in work" in parts["stack"]
    assert parts["last lines"].splitlines() == ["In[7]: running", "here 2"]
    first, *_, last = parts["collectives"].splitlines()
    assert first.startswith("#1 all_reduce(float32[4], sum) at In[6]:4: took ")
    assert last.startswith("#3 ")
    assert "weights" in parts["variables"]
    assert "703 KiB" in parts["variables"]
    heal = view.send("heal")
    view.hear(heal, lambda reply: "In[7]" in reply["text"])  # it waits for the cell, and says so
    with within(2):
        assert view.ask("interrupt")["text"] == "ranks 0-3 signalled"
    assert [rank.status for rank in running.result(10)] == ["interrupted"] * 4
    assert not view.hear(heal)["ok"]  # nobody was lost


def test_between_cells_a_rank_tells_of_the_last_one(four):
    code = "for line in range(40):\n    print('line', line)\nrank"
    assert four.run(code, label=8).ok
    view = View(four)
    parts = view.report(1)
    head, *lines = parts["last lines"].splitlines()
    assert head.startswith("In[8]: ok after ")
    assert lines == [f"line {number}" for number in range(20, 40)]
    assert "no cell" in parts["stack"]
    assert view.ask("interrupt")["text"].startswith("nothing")
    assert view.ask("rank", rank=4)["ok"] is False


def test_an_interrupt_of_one_rank_leaves_the_others_alone(four, begin):
    running = begin(four, "import time\nprint('here')\ntime.sleep(1.5 if rank else 60)")
    assert View(four).ask("interrupt", ranks=[0])["text"] == "rank 0 signalled"
    assert [rank.status for rank in running.result(10)] == ["interrupted", "ok", "ok", "ok"]


def test_a_rank_that_stands_still_holds_up_only_what_it_is_asked(four, begin, within):
    assert four.run(SET_UP, label=6).ok
    view, running = View(four), begin(four, COMPUTE)
    pid = four.topology().engines[1].pid
    suspend(pid)
    try:
        asked = Stopwatch()
        quick = view.send("rank", rank=1)
        slow = view.send("stacks")
        has_three = lambda reply: len(reply.get("sections", ())) >= 2  # noqa: E731
        early = view.hear(quick, has_three)
        asked.assert_less(1.0, "what is known here")
        assert not early["is_final"]
        assert {part["title"] for part in early["sections"]} >= {"last lines", "collectives"}
        with within(1.0):
            assert view.ask("interrupt", ranks=[0, 2, 3])["text"] == "ranks 0,2-3 signalled"
        parts = {part["title"]: part["text"] for part in view.hear(quick)["sections"]}
        asked.assert_less(WITHIN_S, "the report")
        assert_tells(parts["stack"], "is stopped", f"kill -CONT {pid}")
        assert "is stopped" in parts["variables"]
        assert parts["last lines"].splitlines()[1:] == ["here 1"]
        assert parts["collectives"].startswith("#1 all_reduce")
        assert "is stopped" in view.hear(slow)["sections"][0]["text"]
    finally:
        resume(pid)
    view.ask("interrupt")
    assert [rank.status for rank in running.result(10)] == ["interrupted"] * 4


def test_a_rank_whose_interpreter_is_held_shows_its_stack(four, begin, tmp_path):
    with contextlib.closing(Native(tmp_path)) as native:
        running, view = begin(four, f"print('here')\n{native.code}", ranks=(2,)), View(four)
        native.hold([four.topology().engines[2].pid])

        def report():
            parts = view.report(2, silent=("stack", "variables"))
            return parts if "faulthandler" in parts["stack"] else None

        parts = wait_until(report, 20, "the stack from outside")
    assert "In[7]:6" in parts["stack"]
    assert "native code" in parts["variables"]
    assert running.result(15).ok


def test_a_lost_rank_tells_what_is_left_of_it_and_is_replaced(start, begin, within):
    cluster = start("localhost:3")
    assert cluster.run(SET_UP, label=6).ok
    view, running = View(cluster), begin(cluster, COMPUTE)
    os.kill(cluster.topology().engines[1].pid, signal.SIGKILL)
    wait_until(lambda: cluster.topology().engines[1].state == "lost", 5, "the loss is known")
    parts = view.report(1)
    assert_tells(parts["stack"], "is lost", "SIGKILL")
    assert "rank 1 is lost: " in parts["last lines"]
    assert parts["collectives"].startswith("#1 all_reduce")
    assert "is lost" in parts["variables"]
    assert "rank 1 is lost" in view.ask("explain")["sections"][0]["text"]

    heal = view.send("heal")
    view.hear(heal, lambda reply: "In[7]" in reply["text"])  # it waits for the cell, and says so
    with within(2.0):
        assert view.ask("interrupt")["text"] == "ranks 0,2 signalled"
    assert [rank.status for rank in running.result(10)] == ["interrupted", "lost", "interrupted"]
    healed = view.hear(heal)
    assert healed["ok"], healed
    assert healed["text"].startswith("replaced rank 1 on ")
    assert len(view.texts(heal)) >= 3
    assert cluster.run("rank").ok
    assert not view.ask("heal")["ok"]


def test_a_rank_that_lives_is_replaced_when_it_is_named(start):
    cluster = start("localhost:2")
    before = [engine.pid for engine in cluster.topology().engines]
    assert View(cluster).ask("heal", ranks=[0])["ok"]
    after = [engine.pid for engine in cluster.topology().engines]
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


def test_after_the_end_of_the_cluster_each_request_says_so(start, sweep, within):
    cluster = start("localhost:1")
    views = {kind: View(cluster) for kind in ("interrupt", "stacks", "explain", "heal", "rank")}
    coordinator_of(cluster).kill()
    for kind, view in views.items():
        with within(WITHIN_S):
            answer = view.ask(kind, **({"rank": 0} if kind == "rank" else {}))
        assert not answer["ok"], kind
        assert "coordinator" in answer["text"]
    assert view.ask("stop")["ok"]  # there is nothing left to be ended


def test_a_stop_ends_what_is_asked_at_the_same_time(start, begin):
    cluster = start("localhost:2")
    view, running = View(cluster), begin(cluster, COMPUTE)
    pid = cluster.topology().engines[1].pid
    suspend(pid)
    waiting = [view.send("rank", rank=1), view.send("stacks"), view.send("heal", ranks=[1])]
    stop = view.send("stop")
    view.hear(stop, lambda reply: not reply["is_final"])
    with contextlib.suppress(ProcessLookupError):  # healing or the stop may have ended it by now
        resume(pid)
    assert view.hear(stop)["text"].endswith("stopped")
    answers = [view.hear(request_id) for request_id in waiting]
    assert [answer["is_final"] for answer in answers] == [True] * 3
    assert running.exception(10) is not None
    assert view.ask("stacks")["ok"] is False


def test_a_coordinator_that_does_not_answer_keeps_no_report_waiting(start):
    cluster = start("localhost:1")
    coordinator = coordinator_of(cluster)
    suspend(coordinator.pid)
    try:
        reply = View(cluster).ask("rank", rank=0)
    finally:
        resume(coordinator.pid)
    (text,) = {part["text"] for part in reply["sections"]}
    assert_tells(text, "not known: no answer", "2.8 s")


def test_a_signal_reaches_the_ranks_soon_after_it_was_asked_for(four, begin):
    times_s = []
    watch = Stopwatch()
    for _ in range(5):
        running = begin(four, RAISE_TIME)
        asked_s = time.monotonic()
        View(four).ask("interrupt")
        said = "".join(rank.stdout for rank in running.result(10))
        arrived = [float(line.split()[-1]) for line in said.splitlines() if "signal at" in line]
        assert len(arrived) == 4
        times_s.append(max(arrived) - asked_s)
    print(f"request to signal at the last of 4 ranks: {statistics.median(times_s) * 1e3:.0f} ms")
    watch.assert_less(2, "half of the signals", took_s=statistics.median(times_s))
