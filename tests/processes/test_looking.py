"""Who has what and who does what, while a cell runs: for a second client, and at the keyboard."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from IPython.core.completer import provisionalcompleter

from jupyter_dist import Cluster
from jupyter_dist.cluster.variables import rank_queries as questions
from jupyter_dist.magics import extension
from tests.facts import assert_tells
from tests.ipython_shell import shell_with_magics
from tests.suspending import resume, suspend

from .leftovers import wait_until
from .listener import Listener
from .programs import dist

BEFORE = """
import numpy as np
weights = np.ones((4, 3), np.float32)
loss = 0.5 if rank != 2 else 0.25
rows = np.zeros(4 if rank != 1 else 5)
if rank == 0:
    only = 'here'
"""
BUSY = """
import time
def wait_here():
    while True:
        time.sleep(0.02)
def wait_there():
    while True:
        time.sleep(0.02)
print('here')
wait_there() if rank == 1 else wait_here()
"""


@pytest.fixture(scope="module")
def occupied(shared):
    """Four ranks that run a cell until all tests are over."""
    cluster, listener = shared.cluster, Listener()
    assert cluster.run(BEFORE).ok
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(cluster.run, BUSY, label=7, watcher=listener)
        listener.wait_for("here", ranks=range(4))
        yield cluster
        cluster.interrupt()
        assert [rank.status for rank in running.result(15)] == ["interrupted"] * 4


@pytest.fixture
def busy(occupied, shared, monkeypatch):
    """The ranks that run a cell, in whose home this test is."""
    shared.enter(monkeypatch)
    return occupied


@pytest.fixture
def other(busy):
    """A second client of the busy ranks."""
    cluster = Cluster.attach(busy.name, watch=True)
    yield cluster
    cluster.detach()


@pytest.fixture
def shell(busy, tmp_path):
    """An IPython shell with our extension loaded, attached to the busy ranks."""
    with shell_with_magics(tmp_path / "ipython") as shell:
        shell.run_line_magic("dist_attach", f"{busy.name} --no-follow")
        yield shell
        extension._CURRENT[shell].get().detach()


@pytest.fixture
def stopped(busy):
    """Rank 2 of the busy ranks does not move: its process is stopped."""
    pid = busy.topology().engines[2].pid
    suspend(pid)
    yield pid
    resume(pid)


def complete(shell, code):
    with provisionalcompleter():
        return {found.text for found in shell.Completer.completions(code, len(code))}


# --- who has what ---


def test_a_second_client_sees_the_variables_of_ranks_that_run_a_cell(other, within):
    with within(2):
        table = other.who()
    rows = {row.name: row for row in table.rows}
    assert table.ranks == (0, 1, 2, 3)
    assert table.notes == ()
    remarks = {name: rows[name].remark for name in ("weights", "loss", "rows", "only")}
    assert remarks == {
        "weights": "same on all",
        "loss": "differs: 0.25 on rank 2",
        "rows": "shape differs: 5 on rank 1",
        "only": "only rank 0 has it",
    }
    weights = rows["weights"]
    assert (weights.type_name, weights.dtype) == ("ndarray", "float32")
    assert weights.memory == "192 B, 48 B a rank"
    assert ": rank" in table.memory


def test_names_and_ranks_can_be_chosen(busy):
    table = busy.who(["l*", "only"], "0-1")
    assert [row.name for row in table.rows] == ["loss", "only"]
    same, lacks = (row.remark for row in table.rows)
    assert same.startswith("same")
    assert lacks.startswith("rank 1 lacks")


def test_a_rank_that_does_not_answer_is_named_and_nobody_waits_long_for_it(busy, stopped, within):
    with within(4):
        table = busy.who("loss")
    assert table.ranks == (0, 1, 3)
    (note,) = table.notes
    assert "rank 2: " in note
    assert_tells(table.rows[0].remark, "same", "ranks 0-1,3")


# --- who does what ---


def test_ranks_that_do_the_same_are_told_of_together(other, within):
    with within(3):
        stacks = other.stacks()
    functions = {rank: [frame.function for frame in stacks[rank].main.frames] for rank in stacks}
    assert functions == {
        0: ["<module>", "wait_here"],
        1: ["<module>", "wait_there"],
        2: ["<module>", "wait_here"],
        3: ["<module>", "wait_here"],
    }
    assert stacks[1].main.frames[0].site.startswith("In[7]:")
    heads = [line for line in str(stacks).splitlines() if not line.startswith(" ")]
    assert heads == ["rank 1", "ranks 0,2-3"]


def test_a_stopped_process_is_told_of_instead_of_a_stack(busy, stopped, within):
    with within(5):
        stacks = busy.stacks()
    assert stacks[0].main.frames
    assert stacks[2].main is None
    assert "stopped" in str(stacks)


@pytest.mark.slow
def test_what_is_the_matter_is_told_while_ranks_wait(start, in_background, within):
    cluster = start("localhost:2")
    code = "import time\nif rank == 1:\n    time.sleep(60)\ncomm.barrier()"
    running = in_background(cluster.run, code, label=3)
    wait_until(lambda: "barrier" in cluster.explain(), 10, "the verdict")
    assert_tells(cluster.explain(), "In[3]: rank 0 waits", "barrier")
    cluster.interrupt()
    running.result(15)
    assert_tells(cluster.explain(), "no cell", "nothing")


def test_lost_ranks_are_told_of_with_the_ways_out(start):
    cluster = start("localhost:3")
    cluster.run("import os\nif rank == 2:\n    os._exit(3)")
    what, lost, ways = cluster.explain().splitlines()
    assert what.startswith("no cell")
    assert lost.startswith("rank 2 is lost: ")
    assert "%dist_heal" in ways
    assert "--ranks 0-1 " in ways


# --- at the keyboard ---


@pytest.fixture
def patient(monkeypatch):
    """Who types waits for answers that come."""
    monkeypatch.setattr(questions, "TYPING_TIMEOUT_S", 20.0)


@pytest.mark.usefixtures("patient")
def test_names_of_the_ranks_complete_while_they_run_a_cell(shell, within):
    shell.run_cell("weighbridge = 1")
    with within(1.5):
        assert complete(shell, "%%spmd\nweig") == {"weights"}
    assert ".shape" in complete(shell, "%%spmd\nx = 1\nprint(weights.sha")
    assert complete(shell, "weig") == {"weighbridge"}
    assert "only" in complete(shell, "%%spmd\nonl")
    assert "only" not in complete(shell, "%%spmd --ranks 1-2\nonl")


def test_tab_is_never_blocked_by_a_rank_that_does_not_answer(stopped, shell, within, monkeypatch):
    shell.run_cell("weighbridge = 1")
    with within(questions.TYPING_TIMEOUT_S + 1):
        assert complete(shell, "%%spmd --ranks 2\nweig") == {"weighbridge"}
    monkeypatch.setattr(questions, "TYPING_TIMEOUT_S", 20.0)  # rank 0 answers
    with within(1.5):
        assert complete(shell, "%%spmd\nweig") == {"weights"}


@pytest.mark.usefixtures("patient")
def test_objects_of_the_ranks_are_described_while_they_run_a_cell(shell, within):
    with within(2):
        text = shell.object_inspect_mime("weights.shape")["text/plain"]
    assert text.startswith("on rank 0\n")
    assert "tuple" in text
    with pytest.raises(KeyError):
        shell.object_inspect_mime("nothing_of_that_name")


def test_the_terminal_shows_the_same(busy):
    assert "only rank 0 has it" in dist("who", busy.name, "--only", "only")[1]
    assert "ranks 0,2-3" in dist("stacks", busy.name)[1].splitlines()
    assert_tells(busy.explain(), "In[7] runs; nothing")
    assert dist("explain", busy.name) == (0, f"{busy.explain()}\n", "")
