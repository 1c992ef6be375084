"""Ranks that hang, wait, sleep or are stopped: what the cell says about it, and how soon."""

import time

import pytest

from tests.facts import assert_tells
from tests.suspending import resume, suspend

from .hangs import PATIENCE_S, SOON_S, Hang
from .leftovers import engines_of, wait_until


@pytest.fixture
def hang(four, tmp_path, in_background):
    """A cell of four ranks that ends with the test."""
    hang = Hang(four, tmp_path / "gate", in_background)
    yield hang
    hang.end()


def states_of(cluster):
    return [engine.state for engine in cluster.topology().engines]


def verdict(hang, *words):
    """Give the first note that has all these words; they have to come in time, but not too soon.

    A note that was before it may say of a rank, which was late once, that it does not answer.
    """

    def find():
        notes = hang.listener.notes
        return next((note for note in notes if all(word in note for word in words)), None)

    hang.verdict(words[0])
    left_s = hang.listener.watch.left_s(PATIENCE_S + SOON_S)
    return wait_until(find, left_s, f"a note with {words}")


def test_a_rank_that_finished_without_calling_is_named(hang, four):
    hang.begin("if rank != 2:\n    comm.all_reduce(np.ones(4))")
    note = hang.verdict("rank 2")
    assert_tells(
        note, "ranks 0-1,3 wait", "all_reduce #", "(In[5]:8) for ", "; rank 2 finished", "; ■ "
    )
    assert states_of(four) == ["hung", "hung", "idle", "hung"]


@pytest.mark.slow
def test_ranks_that_never_meet_are_told_apart(hang):
    pairs = "left, right = comm.split(rank // 2), comm.split(rank % 2)\n"
    hang.begin(
        f"{pairs}if rank in (0, 3): left.barrier(); right.barrier()\n"
        "else: right.barrier(); left.barrier()"
    )
    note = hang.verdict("each other")
    assert_tells(note, "; ranks 0-3 wait", "each other; ■ ")
    for group in ("0-1", "2-3", "0,2", "1,3"):
        assert_tells(note, "waits", f"barrier #1 of group {group} (In[5]:")


def test_a_straggler_is_no_hang_and_its_line_is_told(hang, four):
    hang.begin(
        "def load_batch():\n    while not os.path.exists({gate!r}): sum(range(1000))\n"
        "if rank == 1: load_batch()\ncomm.barrier()"
    )
    note = verdict(hang, "rank 1", "computes at In[5]:8 in load_batch (`")
    assert_tells(note, "ranks 0,2-3 wait", "barrier #", "; rank 1 has not", "computes", "; no hang")
    assert states_of(four) == ["collective", "busy", "collective", "collective"]
    assert hang.end().ok


@pytest.mark.slow
def test_a_rank_that_sleeps_is_told_with_its_line(hang):
    hang.begin("if rank == 3:\n    time.sleep(60)\ncomm.barrier()")
    assert_tells(
        verdict(hang, "rank 3", "rank 3 has not", "sleeps"), " at In[5]:8 (`time.sleep(60)`)"
    )


@pytest.mark.slow
def test_a_rank_that_waits_for_a_lock_is_told_with_its_line(hang):
    hang.begin(
        "lock = threading.Lock()\nlock.acquire()\nif rank == 0:\n    lock.acquire()\ncomm.barrier()"
    )
    note = verdict(hang, "rank 0", "rank 0 has not", "a lock")
    assert_tells(note, "; rank 0 has not", "a lock", " at In[5]:10 (`lock.acquire()`)")


@pytest.mark.slow
def test_native_code_that_holds_the_interpreter_is_told_with_the_line_that_called_it(hang):
    hang.begin("if rank == 2:\n    until_gate()\n    ctypes.PyDLL(None).sleep(60)\ncomm.barrier()")
    hang.gate.touch()  # only now: while it is held, nobody hears that it has begun
    note = verdict(hang, "rank 2", "native code", " at In[5]:9 (`ctypes.PyDLL(None).sleep(60)`)")
    assert_tells(note, "rank 2 has not", "native code", " at In[5]:9 ")


def test_a_stopped_process_is_told_with_the_way_to_let_it_go_on(hang):
    pid = engines_of(hang.cluster)[1].pid
    hang.begin("if rank == 1: until_gate()\ncomm.barrier()")
    suspend(pid)
    try:
        note = hang.verdict("stopped", earliest_s=1.0)
        assert_tells(note, "rank 1", f"is stopped (`kill -CONT {pid}` on ")
    finally:
        resume(pid)
    assert hang.end().ok


@pytest.mark.slow
def test_a_rank_that_waits_for_another_program_is_told(hang):
    hang.begin(
        "import subprocess\nif rank == 1:\n    subprocess.run(['sleep', '60'])\ncomm.barrier()"
    )
    assert verdict(hang, "rank 1", "another program at In[5]:9 (`subprocess.run(['sleep', '60'])`)")


@pytest.mark.slow
def test_a_cell_that_computes_for_long_is_left_in_peace(hang):
    hang.begin("until_gate()\ncomm.barrier()")
    time.sleep(PATIENCE_S + 2.0)  # what does not come has no event
    assert hang.end().ok
    assert hang.listener.notes == []
