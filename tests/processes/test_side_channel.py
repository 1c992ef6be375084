"""What ranks answer while they run a cell, and what is seen of those that cannot answer."""

import os
import signal

import pytest

from jupyter_dist import Cluster
from jupyter_dist.cluster.variables.rank_queries import ask_ranks
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.model.ranks.variable_facts import RankNames
from jupyter_dist.protocol.messages import (
    AskRanks,
    CompleteCode,
    InspectName,
    ListNames,
    RanksAnswered,
    ReadStacks,
)
from tests.facts import assert_tells
from tests.matrix import only
from tests.patience import Stopwatch, let_pass, within
from tests.suspending import resume, suspend

from .held import CALL, Native
from .leftovers import wait_until
from .listener import Listener, begin

WITHIN_S = 2.5
TIMEOUT_S = 30.0
"""Ranks that can answer do so at once."""
SILENT_S = 2.0
"""For those that cannot."""
FROM_OUTSIDE_S = 4.0
"""Half of it is for ranks to answer; then agents look at those that do not."""
SET_UP = (
    "import numpy as np\nrun = {'lr': 0.1, 'rank': rank}\nweights = np.arange(6.0).reshape(2, 3)"
)
LOOP = """
def count():
    n = 0
    while not os.path.exists(go):
        n += 1
    return n
count() > 0"""
SLEEP = "pause() is None"
PAUSE = """
def pause():
    while not os.path.exists(go):
        time.sleep(0.01)
"""
NUMPY = """
a = np.ones((300, 300))
while not os.path.exists(go):
    a @ a
True"""


@pytest.fixture
def other(shared, four):
    """A second client of the cluster."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        shared.enter(monkeypatch)
        client = Cluster.attach(four.name)
    yield client
    client.detach()


class Running:
    """A cell that goes on until it is told to end, and is True then."""

    def __init__(self, future, release):
        self._future, self._release = future, release

    def assert_undisturbed(self):
        """It has never been interrupted, and ends as it should."""
        assert not self._future.done()
        self._release()
        result = self._future.result(20)
        assert [(rank.status, rank.value_repr) for rank in result] == [("ok", "True")] * len(result)
        assert [rank.stderr for rank in result] == [""] * len(result)


@pytest.fixture
def running(four, in_background, tmp_path):
    """Run a cell that says `here` first, and goes on until the file `go` is there."""
    go = tmp_path / "go-on"

    def run(code, ranks=None):
        assert four.run(f"import os, time\ngo = {str(go)!r}\n{PAUSE}").ok
        whole = f"import time\nprint('here')\n{code}"
        future = begin(in_background, four, whole, ranks=ranks, label=7)
        return Running(future, go.touch)

    yield run
    go.touch()


@pytest.fixture
def native(tmp_path):
    """What holds interpreters."""
    native = Native(tmp_path)
    yield native
    native.close()


@pytest.fixture
def held(four, running, native):
    """Run a cell that holds the interpreters of its ranks when this returns."""

    def hold(ranks=None):
        cell = running(native.code, ranks)
        cell._release = native.release
        engines = four.topology().engines
        native.hold([engines[rank].pid for rank in ranks or range(4)])
        return cell

    return hold


def ask(client, about, ranks=None, timeout_s=TIMEOUT_S):
    return ask_ranks(client._control, about, ranks, timeout_s)


def look(client, wanted, *, is_native=False, timeout_s=FROM_OUTSIDE_S):
    """Give the stacks of these ranks, each seen by one of its wanted sources.

    Agents give what they look at a second by the clock, in which a busy machine may do nothing:
    then it is asked again.
    """
    watch = Stopwatch()
    while True:
        with within(timeout_s + 0.5):
            stacks, problems = ask(client, ReadStacks(is_native), tuple(wanted), timeout_s)
        sources = {rank: seen.source for rank, seen in stacks.items()}
        if all(sources.get(rank) in wanted[rank] for rank in wanted):
            assert problems == {}
            return stacks
        assert not watch.is_over(20), (sources, problems)


@pytest.mark.parametrize("code", [LOOP, SLEEP, NUMPY], ids=["loop", "sleep", "numpy"])
def test_ranks_that_run_python_answer_a_second_client(four, other, running, within, code):
    assert four.run(SET_UP).ok
    cell = running(code)
    with within(WITHIN_S):
        names, problems = ask(other, ListNames(("run", "weights")))
    assert (sorted(names), problems) == ([0, 1, 2, 3], {})
    for rank, told in names.items():
        assert isinstance(told, RankNames)
        run, weights = told.names
        assert run.preview == f"{{'lr': 0.1, 'rank': {rank}}}"
        assert (weights.dtype, weights.nbytes) == ("float64", 48)
        assert told.rss_bytes > 1 << 20
    assert len({told.names[0].digest for told in names.values()}) == 4
    assert len({told.names[1].digest for told in names.values()}) == 1

    with within(WITHIN_S):
        completions, _ = ask(other, CompleteCode("weights.resh", 12), (2,))
        inspections, _ = ask(other, InspectName("weights"), (1,))
        stacks, problems = ask(other, ReadStacks())
    assert "weights.reshape"[completions[2].start :] in completions[2].matches
    assert "ndarray" in inspections[1].data["text/plain"]
    assert problems == {}
    for seen in stacks.values():
        assert seen.source == "python"
        assert seen.main.frames[0].site.startswith("In[7]:")
    cell.assert_undisturbed()


def test_the_stack_tells_the_line_and_the_code(other, running):
    loop = "while not os.path.exists(go): pass"
    cell = running(f"def wait():\n    {loop}\nwait() is None")
    stacks, _ = ask(other, ReadStacks(), (3,))
    assert [str(frame) for frame in stacks[3].main.frames][:2] == [
        "In[7]:5: wait() is None",
        f"In[7]:4 in wait: {loop}",
    ]
    cell.assert_undisturbed()


def test_idle_ranks_answer_and_are_in_no_cell(other):
    stacks, problems = ask(other, ReadStacks())
    assert problems == {}
    assert [seen.main.frames for seen in stacks.values()] == [()] * 4


def test_a_rank_whose_interpreter_is_held_is_seen_from_outside(other, held, within):
    cell = held()
    for seen in look(other, dict.fromkeys(range(4), ("faulthandler",))).values():
        assert (seen.process_state, seen.note) == ("S", "")
        assert str(seen.main.frames[0]) == f"In[7]:7: {CALL}"
    with within(WITHIN_S):
        names, problems = ask(other, ListNames(), (1,), timeout_s=0.5)
    assert names == {}
    assert "native code" in problems[1]
    cell.assert_undisturbed()  # it was not cut short by the signal
    assert ask(other, ListNames())[1] == {}


@pytest.mark.slow
def test_a_held_rank_may_be_looked_at_again_and_again(other, held):
    cell = held(ranks=(2,))
    for _ in range(3):
        look(other, {2: ("faulthandler",)}, timeout_s=3.0)
    cell.assert_undisturbed()


def test_native_stacks_are_told_or_why_there_are_none(other, held):
    cell = held(ranks=(0,))
    stacks = look(other, {0: ("py-spy", "faulthandler")}, is_native=True, timeout_s=15)
    assert stacks[0].source == "py-spy" or "py-spy" in stacks[0].note
    assert any("In[7]:7" in frame.site for frame in stacks[0].main.frames)
    cell.assert_undisturbed()


def test_a_stopped_rank_is_told_as_stopped_and_the_others_answer(four, other, running, within):
    cell = running(SLEEP)
    pid = four.topology().engines[1].pid
    suspend(pid)
    try:
        answering = dict.fromkeys((0, 2, 3), ("python",))
        stacks = look(other, answering | {1: ("none",)})
        assert stacks[1].process_state == "T"
        assert f"`kill -CONT {pid}`" in stacks[1].note
        with within(WITHIN_S):
            names, problems = ask(other, ListNames(), timeout_s=SILENT_S)
        assert sorted(names) == [0, 2, 3]
        assert "is stopped" in problems[1]
    finally:
        resume(pid)
    cell.assert_undisturbed()


@pytest.mark.parametrize(
    "handler", only(["lambda *_: os._exit(9)"], ["signal.SIG_DFL", "lambda *_: os._exit(9)"])
)
def test_a_signal_that_user_code_has_taken_is_not_sent(start, in_background, native, handler):
    cluster = start("localhost:1")
    code = (
        "import os, signal\n"
        f"before = signal.signal(signal.SIGUSR1, {handler})\n"
        f"print('here')\n{native.code}"
    )
    cell = begin(in_background, cluster, code)
    native.hold([cluster.topology().engines[0].pid])
    stacks, _ = ask(cluster, ReadStacks(), timeout_s=FROM_OUTSIDE_S)
    assert stacks[0].source == "none"
    assert "taken SIGUSR1" in stacks[0].note
    Running(cell, native.release).assert_undisturbed()
    assert ask(cluster, ReadStacks())[0][0].source == "python"


@pytest.mark.slow
def test_an_object_that_never_ends_describing_itself_holds_nothing_else_up(
    four, other, running, within
):
    code = """
class Endless:
    def __str__(self):
        while not over:
            time.sleep(0.01)
        return "over"
over = False
endless = Endless()
"""
    assert four.run(f"import time\n{code}").ok
    cell = running(SLEEP)
    with within(5):
        _, problems = ask(other, InspectName("endless"), (0,), timeout_s=4.0)
    assert "it longer" in problems[0]
    with within(1):
        _, problems = ask(other, ListNames(), (0,))
        stacks, _ = ask(other, ReadStacks(), (0,))
    assert "(endless?)" in problems[0]
    assert stacks[0].main.frames
    cell.assert_undisturbed()
    assert four.run("over = True").ok
    wait_until(lambda: 0 in ask(other, ListNames(), (0,))[0], 5, "rank 0 tells its names again")


def test_output_goes_on_streaming_while_questions_are_answered(
    other, four, in_background, tmp_path
):
    listener = Listener()
    go = tmp_path / "go-on"
    code = (
        "import os, time\n"
        "for step in range(600):\n"
        "    print(f'step-{step}.')\n"
        "    time.sleep(0.1)\n"
        f"    if os.path.exists({str(go)!r}): break"
    )
    cell = begin(in_background, four, code, listener, word="step-0.")
    while any("step-4." not in listener.text[rank] for rank in range(4)):
        assert not cell.done()
        ask(other, ListNames())
    assert not cell.done()
    go.touch()
    assert cell.result(20).ok


def test_a_question_about_a_lost_rank_is_answered_with_how_it_was_lost(start, within):
    cluster = start("localhost:2")
    os.kill(cluster.topology().engines[1].pid, signal.SIGKILL)
    wait_until(lambda: cluster.topology().engines[1].state == "lost", 3, "the loss is known")
    with within(1):
        stacks, problems = ask(cluster, ReadStacks())
    assert sorted(stacks) == [0]
    assert isinstance(stacks[0], RankStacks)
    assert_tells(problems[1], "is lost", "SIGKILL")


@pytest.mark.slow
def test_a_rank_that_is_lost_while_it_is_asked_is_not_waited_for(start, in_background, within):
    cluster = start("localhost:2")
    pid = cluster.topology().engines[1].pid
    suspend(pid)
    asked = in_background(ask, cluster, ListNames(), None, 30.0)
    let_pass(0.5)  # by now rank 0 has answered
    assert not asked.done()
    with within(1.5):
        os.kill(pid, signal.SIGKILL)
        names, problems = asked.result(5)
    assert sorted(names) == [0]
    assert "is lost" in problems[1]


def test_hundreds_of_questions_at_once_are_answered_or_refused(four, other, running):
    cell = running(SLEEP)
    line = other._control
    answered = refused = 0
    with line.lock:
        ids = {line.new_request_id() for _ in range(300)}
        for request_id in ids:
            line.send(AskRanks(request_id, ListNames(), None, 2.0))
        watch = Stopwatch()
        while ids and not watch.is_over(10):
            for message, _ in line.receive():
                if getattr(message, "request_id", "") in ids:
                    ids.discard(message.request_id)
                    is_answer = isinstance(message, RanksAnswered)
                    answered, refused = answered + is_answer, refused + (not is_answer)
    assert not ids
    assert answered >= 64
    cell.assert_undisturbed()
