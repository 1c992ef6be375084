"""Interrupts and time limits: a cell ends, says so, and the next one works."""

import contextlib
import os
import signal
import threading

import pytest

from jupyter_dist.errors import CellInterrupted, CellTimedOut
from tests.facts import assert_tells
from tests.patience import Stopwatch, let_pass

from .leftovers import wait_until
from .listener import Listener, begin
from .programs import run_script
from .results import statuses

DEFINE = """
import ctypes, signal
def be_in_c(seconds, gate=""):
    # Like C code that ignores signals: other threads get them, and Python acts on them afterwards.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        ctypes.CDLL(None).open(gate.encode(), 0) if gate else ctypes.CDLL(None).sleep(seconds)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
"""
SWALLOW = """
import time
class Swallows:
    # Python prints what a finalizer raises, and goes on.
    def __del__(self):
        time.sleep(60)
"""
IN_C = "be_in_c({seconds})"


class Gate:
    """Python code that is in C until the gate is opened."""

    def __init__(self, path):
        os.mkfifo(path)
        self._path = path
        self.in_c = f"be_in_c(0, {str(path)!r})"

    def open(self):
        """Let the rank come back from C."""
        os.close(os.open(self._path, os.O_WRONLY | os.O_NONBLOCK))


@pytest.fixture
def gate(tmp_path):
    """A gate for one rank, open at the end whatever has come of the test."""
    gate = Gate(tmp_path / "gate")
    yield gate
    with contextlib.suppress(OSError):  # nobody waits
        gate.open()


def assert_works(cluster):
    result = cluster.run("import numpy as np\nprint('ok')\ncomm.all_reduce(np.ones(2)).tolist()")
    size = float(cluster.world_size)
    assert [(rank.stdout, rank.value_repr) for rank in result] == [
        ("ok\n", f"[{size}, {size}]")
    ] * cluster.world_size


def interrupted_run(cluster, in_background, code, ranks=None):
    """Run a cell that says `here` first, interrupt it then, give what came of it."""
    listener = Listener()
    running = begin(in_background, cluster, f"print('here')\n{code}", listener)
    sent = cluster.interrupt(ranks)
    return sent, running, listener


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(60)",
        "while True: pass",
        "import asyncio\nawait asyncio.sleep(60)",
        "import threading\nthreading.Event().wait()",
        f"{SWALLOW}\nSwallows()\nwhile True: pass",
        "import subprocess\nsubprocess.run(['sleep', '60'])",
        "import numpy as np\nif rank == 1:\n    import time\n    time.sleep(60)\ncomm.barrier()",
    ],
)
def test_an_interrupt_ends_what_runs_on_every_rank(four, in_background, within, code):
    four.run("kept = rank * 10")
    sent, running, _ = interrupted_run(four, in_background, code)
    with within(3):
        result = running.result(10)
    assert sent == (0, 1, 2, 3)
    assert statuses(result) == ["interrupted"] * 4
    assert [rank.stdout for rank in result] == ["here\n"] * 4
    with pytest.raises(CellInterrupted, match="ranks 0-3 interrupted"):
        result.raise_first()
    assert [rank.value_repr for rank in four.run("kept")] == ["0", "10", "20", "30"]
    assert_works(four)


def test_an_interrupt_that_does_not_end_a_system_call_is_seen_all_the_same(
    four, in_background, within
):
    """As when it comes between Python's last look for signals and the call: another thread gets it."""
    code = (
        "import signal, threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        "before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "try:\n    print('there')\n    time.sleep(60)\n"
        "finally:\n    signal.pthread_sigmask(signal.SIG_SETMASK, before)"
    )
    listener = Listener()
    running = in_background(four.run, code, watcher=listener)
    listener.wait_for("there", ranks=range(4))
    four.interrupt()
    with within(2):
        assert statuses(running.result(10)) == ["interrupted"] * 4
    assert_works(four)


def test_a_shell_command_is_interrupted(four, in_background, within):
    _, running, _ = interrupted_run(four, in_background, "!sleep 60")
    with within(5):
        running.result(10)
    assert_works(four)


def test_the_traceback_of_an_interrupt_shows_where_the_cell_was(four, in_background):
    _, running, _ = interrupted_run(four, in_background, "while True:\n    busy = 1")
    error = running.result(10)[0].error
    assert error.ename == "KeyboardInterrupt"
    assert "In[1]" in "".join(error.traceback).replace(" ", "")
    assert "executor.py" not in "".join(error.traceback)


def test_a_cell_that_catches_the_interrupt_ends_as_it_likes(four, in_background):
    code = "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('caught')\nrank"
    _, running, _ = interrupted_run(four, in_background, code)
    result = running.result(10)
    assert [rank.stdout for rank in result] == ["here\ncaught\n"] * 4
    assert statuses(result) == ["ok"] * 4
    assert_works(four)


def test_some_ranks_may_be_interrupted_while_others_go_on(four, in_background):
    code = "import time\ntime.sleep(60 if rank in (1, 2) else 1)\nrank"
    sent, running, _ = interrupted_run(four, in_background, code, ranks="1-2")
    assert sent == (1, 2)
    assert statuses(running.result(10)) == ["ok", "interrupted", "interrupted", "ok"]
    assert_works(four)


def test_an_idle_cluster_takes_no_notice_of_an_interrupt(four):
    for _ in range(10):
        assert four.interrupt() == ()
        assert_works(four)


def test_an_interrupt_that_comes_late_never_hits_the_next_cell(four, in_background):
    for _ in range(10):
        listener = Listener()
        running = in_background(four.run, "print('here')", watcher=listener)
        listener.wait_for("here", ranks=[0])
        four.interrupt()
        assert set(statuses(running.result(10))) <= {"ok", "interrupted"}
        assert_works(four)


def test_two_interrupts_in_a_row_are_as_good_as_one(four, in_background):
    _, running, _ = interrupted_run(four, in_background, "import time\ntime.sleep(60)")
    four.interrupt()
    assert set(statuses(running.result(10))) == {"interrupted"}
    assert_works(four)


def test_a_collective_that_an_unresponsive_rank_misses_is_left_with_state_kept(
    four, in_background, gate
):
    """Python code in a C call on rank 1; the others wait for it in the ring."""
    four.run(DEFINE)
    code = f"kept = rank + 1\nprint('here')\nif rank == 1: {gate.in_c}\ncomm.barrier()"
    listener = Listener()
    running = begin(in_background, four, code, listener)
    watch = Stopwatch()
    four.interrupt()
    wait_until(lambda: len(listener.finished) >= 3, 4, "ranks have left the ring")
    print(f"from the interrupt until the ring is left: {watch.spell()}")
    gate.open()
    assert set(statuses(running.result(20))) == {"interrupted"}
    assert [rank.value_repr for rank in four.run("kept")] == ["1", "2", "3", "4"]
    assert_works(four)


def test_a_collective_with_a_missing_rank_is_left_with_state_kept(four, in_background, within):
    code = "kept = rank + 1\nprint('here')\nif rank: comm.barrier()"
    running = begin(in_background, four, code)
    let_pass(0.2)  # there is no event for "now it waits in the ring"
    with within(4) as watch:
        four.interrupt()
        result = running.result(10)
    print(f"from the interrupt to the end of a cell stuck in the ring: {watch.spell()}")
    assert statuses(result) == ["ok", "interrupted", "interrupted", "interrupted"]
    assert [rank.value_repr for rank in four.run("kept")] == ["1", "2", "3", "4"]
    assert_works(four)


def test_ranks_that_do_not_answer_an_interrupt_are_named_with_their_line(four, in_background, gate):
    four.run(DEFINE)
    code = f"if rank == 2: {gate.in_c}\nelse: comm.barrier()"
    _, running, listener = interrupted_run(four, in_background, code)
    listener.wait_for_note("not answered", within_s=5)
    gate.open()
    (note,) = [note for note in listener.notes if "not answered" in note]
    assert_tells(note, "rank 2 ", " 2 s: In[1]:6 in be_in_c: ", " (called from In[1]:2)")
    result = running.result(20)
    assert set(statuses(result)) == {"interrupted"}
    assert_works(four)


@pytest.mark.slow
def test_an_unresponsive_rank_ends_the_cell_with_the_truth_and_nothing_is_lost(
    four, in_background, within
):
    """C code of 8 s: named after 2 s, given up after 3.5 s, and found idle by the next cell."""
    four.run(DEFINE)
    code = f"kept = rank\nif rank == 2:\n    {IN_C.format(seconds=8)}"
    with within(4.5) as watch:
        _, running, listener = interrupted_run(four, in_background, code)
        result = running.result(20)
    spell = watch.spell()
    print(f"from the interrupt of an unresponsive rank to the end of its cell: {spell}")
    assert spell.took_s > 3
    assert result[2].status == "unresponsive"
    assert result[2].value_repr is None
    assert "still busy: " in str(result[2].error)
    assert any("not answered" in note and " 2 s" in note for note in listener.notes)
    assert_tells(listener.notes[-1], "rank 2 ", "not responding", "%dist_heal --ranks 2 ")
    with pytest.raises(CellInterrupted, match="rank 2 ") as caught:
        result.raise_first()
    assert caught.value.unresponsive == (2,)
    engines = four.topology().engines
    assert [engine.state for engine in engines] == ["idle", "idle", "busy", "idle"]
    assert engines[2].cell == "In[1]"
    listener = Listener()
    following = four.run("kept", watcher=listener)
    assert_tells(
        "\n".join(listener.notes), "rank 2 ", "still busy", "In[1]", "%dist_heal --ranks 2"
    )
    assert [rank.value_repr for rank in following] == ["0", "1", "2", "3"]
    assert_works(four)


@pytest.mark.slow
def test_an_unresponsive_rank_can_be_replaced_while_the_others_keep_their_state(
    start, in_background
):
    cluster = start("localhost:3")
    cluster.run(f"{DEFINE}\nkept = rank")
    pids = [engine.pid for engine in cluster.topology().engines]
    _, running, _ = interrupted_run(
        cluster, in_background, f"if rank == 1: {IN_C.format(seconds=600)}"
    )
    assert running.result(20)[1].status == "unresponsive"
    cluster.heal(ranks=[1])
    healed = [engine.pid for engine in cluster.topology().engines]
    assert (healed[0], healed[2]) == (pids[0], pids[2])
    assert healed[1] != pids[1]
    values = [rank.value_repr for rank in cluster.run("globals().get('kept')")]
    assert values == ["0", None, "2"]
    assert_works(cluster)


@pytest.mark.slow
def test_another_client_interrupts_by_the_same_steps(start, in_background, gate):
    cluster = start("localhost:2")
    other = start.attach(cluster.name)
    cluster.run(DEFINE)
    listener = Listener()
    code = f"print('here')\nif rank == 1: {gate.in_c}\nelse: comm.barrier()"
    running = begin(in_background, cluster, code, listener)
    assert other.interrupt() == (0, 1)
    listener.wait_for_note("rank 1 has not", within_s=5)
    gate.open()
    assert statuses(running.result(20)) == ["interrupted", "interrupted"]
    assert_works(cluster)


def test_ctrl_c_in_a_script_interrupts_the_ranks_and_gives_the_result(home):
    script = (
        "import os, signal, threading\n"
        "from jupyter_dist import Cluster\n"
        "class Watcher:\n"
        "    def on_output(self, ranks, outputs): os.kill(os.getpid(), signal.SIGINT)\n"
        "    def on_finished(self, result): pass\n"
        "    def on_note(self, text): print('note:', text)\n"
        "    def on_tick(self): pass\n"
        "with Cluster.start('localhost:1') as cluster:\n"
        "    code = 'import time\\nprint(1)\\ntime.sleep(60)'\n"
        "    print(repr(cluster.run(code, watcher=Watcher())))\n"
        "    print(cluster.run('6 * 7')[0].value_repr)\n"
    )
    said = run_script(script)
    assert "note: interrupt sent" in said
    assert_tells(said, "<SpmdResult: interrupted", "rank 0>")
    assert said.endswith("42\n")


@pytest.mark.slow
def test_a_second_ctrl_c_gives_the_prompt_back(four):
    main = threading.main_thread().ident

    here, pressed = set(), []

    class Impatient(Listener):
        def on_output(self, ranks, outputs):
            here.update(ranks)
            if len(here) == 4:  # who has not begun yet would not be unresponsive
                here.clear()
                os.kill(os.getpid(), signal.SIGINT)

        def on_note(self, text):
            super().on_note(text)
            if "not answered" in text:
                pressed.append(Stopwatch())
                os.kill(os.getpid(), signal.SIGINT)

    assert threading.get_ident() == main
    four.run(DEFINE)
    code = f"print('here')\n{IN_C.format(seconds=8)}"
    with pytest.raises(KeyboardInterrupt):
        four.run(code, watcher=Impatient(), label=4)
    pressed[0].assert_less(1, "the way back to the prompt")
    engines = four.topology().engines
    assert [(engine.state, engine.cell) for engine in engines] == [("busy", "In[4]")] * 4
    listener = Listener()
    assert four.run("'next'", watcher=listener).ok
    assert any("still busy" in note for note in listener.notes)


def test_a_cell_that_takes_too_long_is_timed_out(four, within):
    with within(5) as watch:
        result = four.run("import time\nprint('here')\ntime.sleep(60)", timeout_s=3)
    assert statuses(result) == ["timed_out"] * 4
    assert [rank.stdout for rank in result] == ["here\n"] * 4
    assert all(rank.duration_s > 1.5 for rank in result)
    watch.assert_less(5, "a rank", took_s=max(rank.duration_s for rank in result))
    with pytest.raises(CellTimedOut, match=r"ranks 0-3 .*time limit"):
        result.raise_first()
    assert_works(four)


def test_ranks_that_wait_in_a_collective_are_timed_out_too(four, within):
    with within(6):
        result = four.run("if rank: comm.barrier()", timeout_s=3)
    assert statuses(result) == ["ok", "timed_out", "timed_out", "timed_out"]
    assert_works(four)


@pytest.mark.slow
def test_an_unresponsive_rank_is_timed_out_and_the_next_cell_says_whom_it_waits_for(four, within):
    four.run(DEFINE)
    code = f"if rank == 1: {IN_C.format(seconds=8)}"
    with within(7):
        result = four.run(code, timeout_s=3, label=4)
    assert statuses(result) == ["ok", "timed_out", "ok", "ok"]
    assert_tells(str(result[1].error), "time limit", "3 s", "still busy")
    listener = Listener()
    assert four.run("'next'", watcher=listener).ok
    told = "\n".join(listener.notes)
    assert_tells(told, "rank 1 ", "still busy", "In[4]")
    assert "%dist_interrupt" in told
    assert_works(four)
