"""Ranks that hang, wait, sleep or are stopped: what the cell says about it, and how soon."""

import os
import signal
import time

import pytest

from .leftovers import engines_of
from .listener import Listener

pytestmark = pytest.mark.timeout(60)

SOON_S = 5.0
"""Within this time after it is certain that somebody waits in vain, the cell has to say so;"""
PATIENCE_S = 3.0
"""which it is not before."""

ALIKE = """\
import os, time, threading, ctypes
import numpy as np
def until_gate():
    while not os.path.exists({gate!r}):
        time.sleep(0.02)
print('begun')
"""
"""Six lines; what a test does stands in line 7 and below."""


class TimedListener(Listener):
    """Remembers when each note has come."""

    def __init__(self):
        super().__init__()
        self.begun_s = time.monotonic()
        self.after_s = []

    def on_note(self, text):
        self.after_s.append(time.monotonic() - self.begun_s)
        super().on_note(text)


class Hang:
    """A cell that hangs on purpose, until the test opens its gate or interrupts it."""

    def __init__(self, cluster, gate, in_background):
        self.cluster, self.gate = cluster, gate
        self._in_background = in_background
        self.listener = TimedListener()
        self.cell = None

    def begin(self, code, **options):
        """Run this on all ranks; `{gate}` is its way out."""
        text = (ALIKE + code).replace("{gate!r}", repr(str(self.gate)))
        ranks = range(len(self.cluster.topology().engines))
        self.cell = self._in_background(
            self.cluster.run, text, label=5, watcher=self.listener, **options
        )
        self.listener.wait_for("begun", ranks)
        self.listener.begun_s = time.monotonic()

    def verdict(self, word, earliest_s=PATIENCE_S - 0.5, within_s=PATIENCE_S + SOON_S):
        """Give the first sentence, which has to be about this, and come in time."""
        self.listener.wait_for_note("", within_s)
        note, after_s = self.listener.notes[0], self.listener.after_s[0]
        assert word in note
        assert after_s >= earliest_s, f"{note!r} came after {after_s:.1f} s"
        return note

    def end(self):
        """Let it go on, or interrupt it; give its result."""
        self.gate.touch()
        if self.cell is None:
            return None
        try:
            return self.cell.result(1)
        except TimeoutError:
            self.cluster.interrupt()
            return self.cell.result(15)


@pytest.fixture
def hang(four, tmp_path, in_background):
    """A cell of four ranks that ends with the test."""
    hang = Hang(four, tmp_path / "gate", in_background)
    yield hang
    hang.end()


def test_a_rank_that_finished_without_calling_is_named(hang):
    hang.begin("if rank != 2:\n    comm.all_reduce(np.ones(4))")
    note = hang.verdict("rank 2")
    assert note.startswith("ranks 0-1,3 wait in all_reduce #")
    assert "(In[5]:8) for " in note
    assert "; rank 2 finished the cell and never called it" in note
    assert note.endswith("; ■ releases them")


def test_ranks_that_never_meet_are_told_apart(hang):
    pairs = "left, right = comm.split(rank // 2), comm.split(rank % 2)\n"
    hang.begin(
        f"{pairs}if rank in (0, 3): left.barrier(); right.barrier()\n"
        "else: right.barrier(); left.barrier()"
    )
    note = hang.verdict("wait for each other")
    assert "; ranks 0-3 wait for each other; ■ releases them" in note
    for group in ("0-1", "2-3", "0,2", "1,3"):
        assert f"waits in barrier #1 of group {group} (In[5]:" in note


def test_a_straggler_is_no_hang_and_its_line_is_told(hang):
    hang.begin(
        "def load_batch():\n    while not os.path.exists({gate!r}): sum(range(1000))\n"
        "if rank == 1: load_batch()\ncomm.barrier()"
    )
    note = hang.verdict("rank 1")
    assert note.startswith("ranks 0,2-3 wait in barrier #")
    assert "; rank 1 has not called it yet: it still computes at In[5]:8 in load_batch (`" in note
    assert note.endswith("; no hang as far as can be seen")
    assert hang.end().ok


def test_a_rank_that_sleeps_is_told_with_its_line(hang):
    hang.begin("if rank == 3:\n    time.sleep(9)\ncomm.barrier()")
    note = hang.verdict("rank 3")
    assert "rank 3 has not called it yet: it sleeps at In[5]:8 (`time.sleep(9)`)" in note


def test_a_rank_that_waits_for_a_lock_is_told_with_its_line(hang):
    hang.begin(
        "lock = threading.Lock()\nlock.acquire()\nif rank == 0:\n    lock.acquire()\ncomm.barrier()"
    )
    note = hang.verdict("rank 0")
    assert (
        "; rank 0 has not called it yet: it waits for a lock at In[5]:10 (`lock.acquire()`)" in note
    )


def test_native_code_that_holds_the_interpreter_is_told_with_the_line_that_called_it(hang):
    hang.begin("if rank == 2:\n    ctypes.PyDLL(None).sleep(8)\ncomm.barrier()")
    note = hang.verdict("rank 2")
    assert (
        "rank 2 has not called it yet: its interpreter does not answer: native code seems" in note
    )
    assert " at In[5]:8 (`ctypes.PyDLL(None).sleep(8)`)" in note


def test_a_stopped_process_is_told_with_the_way_to_let_it_go_on(hang):
    pid = engines_of(hang.cluster)[1].pid
    hang.begin("if rank == 1: until_gate()\ncomm.barrier()")
    os.kill(pid, signal.SIGSTOP)
    try:
        note = hang.verdict("stopped", earliest_s=1.0)
        assert f"its process is stopped (`kill -CONT {pid}` on " in note
        assert "rank 1" in note
    finally:
        os.kill(pid, signal.SIGCONT)
    assert hang.end().ok


def test_a_rank_that_waits_for_another_program_is_told(hang):
    hang.begin(
        "import subprocess\nif rank == 1:\n    subprocess.run(['sleep', '9'])\ncomm.barrier()"
    )
    note = hang.verdict("rank 1")
    assert "it waits for another program at In[5]:9 (`subprocess.run(['sleep', '9'])`)" in note


def test_a_cell_that_computes_for_long_is_left_in_peace(hang):
    hang.begin("until_gate()\ncomm.barrier()")
    time.sleep(PATIENCE_S + 2.0)  # what does not come has no event
    assert hang.end().ok
    assert hang.listener.notes == []
