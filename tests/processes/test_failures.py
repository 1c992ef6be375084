"""Ranks that raise, end or die: what is said, who is released, what stays."""

import contextlib
import signal
import threading
from pathlib import Path

import pytest

from jupyter_dist.errors import CellRefused, RankRaised, UsageError
from tests.facts import assert_tells
from tests.suspending import resume, suspend

from .leftovers import agents_of, coordinator_of, engines_of, wait_until
from .listener import Listener, begin
from .results import statuses


def assert_survivors_go_on(cluster, lost, reason):
    """Refused on all, with the way out; the others keep state and process."""
    with pytest.raises(CellRefused) as caught:
        cluster.run("kept")
    text = str(caught.value)
    assert f"rank {lost}" in text
    assert reason in text
    assert "--ranks" in text
    assert "%dist_heal" in text
    assert "%dist_shrink" in text
    others = [engine for engine in cluster.topology().engines if engine.rank != lost]
    result = cluster.run("(kept, os.getpid())", ranks=[engine.rank for engine in others])
    assert [rank.value_repr for rank in result] == [
        f"('kept {engine.rank}', {engine.pid})" for engine in others
    ]
    assert cluster.status().ranks[lost] == "lost"


def keep_something(cluster):
    cluster.run("import os, signal, time\nkept = f'kept {rank}'")


def test_a_traceback_shows_the_cells_own_line_and_number(four):
    result = four.run("a = 1\nb = 0\na / b", label=7)
    assert statuses(result) == ["raised"] * 4
    error = result[2].error
    assert error.ename == "ZeroDivisionError"
    assert str(error).startswith("ZeroDivisionError: ")
    text = "\n".join(error.traceback)
    assert "In[7]" in text.replace(" ", "")
    assert "a / b" in text.replace("\x1b[39m", "") or "b" in text
    assert "line 3" in text or "3" in text
    assert "jupyter_dist" not in text, "frames of ours do not belong into a user's traceback"
    with pytest.raises(RankRaised, match=r"rank 0: ZeroDivisionError: .*3 other") as caught:
        result.raise_first()
    assert (caught.value.rank, caught.value.ename) == (0, "ZeroDivisionError")


def test_a_function_of_an_earlier_cell_shows_its_own_source(four):
    four.run("def broken():\n    raise LookupError('deep')", label=3)
    text = "\n".join(four.run("broken()", ranks=0, label=4)[0].error.traceback)
    plain = text.replace(" ", "")
    assert "In[3]" in plain
    assert "In[4]" in plain
    assert "deep" in text


@pytest.mark.parametrize("code", ["1 +", "def f(:\n  pass", "x = = 2", "  bad\nindent", "'open"])
def test_a_cell_with_a_syntax_error_runs_nowhere(four, code):
    four.run("ran = False")
    with pytest.raises(SyntaxError) as caught:
        four.run(f"ran = True\n{code}", label=7)
    assert caught.value.filename == "In[7]"
    assert [rank.value_repr for rank in four.run("ran")] == ["False"] * 4


def test_only_the_rank_that_raises_is_named(four):
    result = four.run("if rank == 2: raise KeyError('mine')\nrank")
    assert statuses(result) == ["ok", "ok", "raised", "ok"]
    assert result[2].error.ename == "KeyError"
    assert result[1].value_repr == "1"
    with pytest.raises(RankRaised, match="rank 2: KeyError"):
        result.raise_first()


def test_a_rank_that_raises_releases_the_others_from_a_barrier(four, within):
    code = "if rank == 1: raise ValueError('bad batch')\ncomm.barrier()"
    with within(1):
        result = four.run(code)
    assert statuses(result) == ["peer_failed", "raised", "peer_failed", "peer_failed"]
    for rank in (0, 2, 3):
        assert result[rank].error.ename == "PeerFailed"
        assert result[rank].error.peer_rank == 1
        assert "rank 1 raised ValueError: bad batch" in str(result[rank].error)
    with pytest.raises(RankRaised, match=r"rank 1: ValueError: bad batch \(the 3 other"):
        result.raise_first()


@pytest.mark.parametrize(
    ("handler", "ename"),
    [
        ("raise RuntimeError('step 7') from error", "RuntimeError"),
        ("undefined", "NameError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_what_user_code_makes_of_a_peers_failure_is_not_the_cause(four, handler, ename):
    code = f"try: comm.barrier()\nexcept Exception as error: {handler}"
    result = four.run(f"if rank == 2: raise ValueError('bad batch')\n{code}")
    assert statuses(result) == ["peer_failed", "peer_failed", "raised", "peer_failed"]
    for rank in (0, 1, 3):
        assert (result[rank].error.ename, result[rank].error.peer_rank) == (ename, 2)
    with pytest.raises(RankRaised, match="rank 2: ValueError: bad batch"):
        result.raise_first()


def test_an_error_that_hides_a_peers_failure_is_the_ranks_own(four):
    code = "try: comm.barrier()\nexcept Exception: raise RuntimeError('step 7') from None"
    result = four.run(f"if rank == 2: raise ValueError('bad batch')\n{code}")
    assert statuses(result) == ["raised"] * 4


def test_the_others_are_interrupted_too_where_it_was_asked_for(four, within):
    code = "import time\nif rank == 1: raise ValueError('bad')\nif rank == 2: time.sleep(30)\n"
    with within(2):
        result = four.run(code + "comm.barrier()", on_error="interrupt")
    assert statuses(result)[1:3] == ["raised", "interrupted"]
    assert {result[0].status, result[3].status} <= {"peer_failed", "interrupted"}
    with pytest.raises(RankRaised, match="rank 1: ValueError: bad"):
        result.raise_first()
    assert four.run("int(comm.all_reduce(1))")[0].value_repr == "4"


def test_nobody_is_released_where_waiting_was_asked_for(four, in_background):
    listener = Listener()
    code = "import time\nif rank == 1: raise ValueError('bad')\nif rank == 2: time.sleep(0.3)\n"
    code += "if rank in (0, 3): comm.barrier()\nprint('computed')"
    running = in_background(four.run, code, on_error="wait", watcher=listener)
    listener.wait_for("computed", ranks=[2])
    wait_until(lambda: len(listener.finished) == 2, 5, "ranks 1 and 2 have finished")
    assert not running.done()
    wait_until(lambda: listener.notes, 12, "a note about who waits for whom")
    assert "rank 1" in listener.notes[0]
    four.interrupt()
    assert statuses(running.result(10)) == ["interrupted", "raised", "ok", "interrupted"]
    assert four.run("int(comm.all_reduce(1))")[0].value_repr == "4"


def test_an_unknown_way_to_treat_the_others_is_refused_before_anything_runs(four):
    four.run("ran = False")
    with pytest.raises(UsageError, match=r"on_error 'stop'.*'release'.*'interrupt'.*'wait'"):
        four.run("ran = True", on_error="stop")
    assert four.run("ran")[0].value_repr == "False"


def test_after_a_failure_a_new_generation_computes_right(four):
    before = four.topology().generation
    four.run("if rank == 3: 1/0\ncomm.barrier()")
    result = four.run("import numpy as np\ncomm.all_reduce(np.array([10.0 ** rank])).tolist()")
    assert [rank.value_repr for rank in result] == ["[1111.0]"] * 4
    assert four.topology().generation > before


def test_a_computing_rank_learns_of_the_failure_in_its_next_collective(four):
    code = (
        "import time\n"
        "if rank == 0: raise ValueError('early')\n"
        "time.sleep(0.4)\n"
        "print('computed')\n"
        "comm.barrier()"
    )
    result = four.run(code)
    assert statuses(result) == ["raised", "peer_failed", "peer_failed", "peer_failed"]
    assert [rank.stdout for rank in result] == ["", "computed\n", "computed\n", "computed\n"]


def test_the_second_cell_waits_for_the_end_of_the_first(four, in_background):
    first = begin(
        in_background,
        four,
        "import time\nprint('here')\ntime.sleep(0.5)\nmark = 'first'",
    )
    second = in_background(four.run, "mark")
    assert first.result(10).ok
    assert [rank.value_repr for rank in second.result(10)] == ["'first'"] * 4


def test_many_threads_may_run_cells(four, in_background):
    cells = [in_background(four.run, f"print({k})\n{k}") for k in range(12)]
    for k, cell in enumerate(cells):
        assert [(r.stdout, r.value_repr) for r in cell.result(20)] == [(f"{k}\n", str(k))] * 4


def test_what_was_printed_with_a_line_end_arrives_before_os_exit(start):
    cluster = start("localhost:2")
    code = "import os\nif rank:\n    for k in range(2000): print('line', k)\n    os._exit(7)"
    result = cluster.run(code)
    assert statuses(result) == ["ok", "lost"]
    assert result[1].stdout == "".join(f"line {k}\n" for k in range(2000))


def test_a_killed_rank_is_lost_by_name_of_the_signal(start, in_background):
    cluster = start("localhost:4")
    keep_something(cluster)
    code = "print('here')\nif rank == 2: time.sleep(60)\nelse: comm.barrier()"
    running = begin(in_background, cluster, code)
    engines_of(cluster)[2].send_signal(signal.SIGKILL)
    result = running.result(3)
    assert statuses(result) == ["peer_failed", "peer_failed", "lost", "peer_failed"]
    crash = result[2].crash
    assert (crash.signal, crash.oom_kills) == (signal.SIGKILL, 0)
    assert_tells(crash.reason, "SIGKILL (someone", "no sign")
    assert crash.memory_available_bytes < crash.memory_total_bytes
    assert result[0].error.peer_rank == 2
    assert result[2].stdout == "here\n"
    assert_survivors_go_on(cluster, 2, "SIGKILL")


def test_all_ranks_may_be_lost_and_the_cluster_still_answers(start):
    cluster = start("localhost:2")
    result = cluster.run("import os\nos._exit(1)")
    assert statuses(result) == ["lost", "lost"]
    with pytest.raises(CellRefused, match=r"ranks 0-1 .*are lost.*%dist_heal"):
        cluster.run("1")
    cluster.stop()


def test_a_rank_stopped_by_a_signal_is_suspected_and_comes_back(start, within):
    cluster = start("localhost:2")
    engine = engines_of(cluster)[1]
    suspend(engine.pid)
    wait_until(
        lambda: "no heartbeat" in cluster.topology().engines[1].reason, 8, "rank 1 is suspected"
    )
    resume(engine.pid)
    wait_until(lambda: not cluster.topology().engines[1].reason, 5, "rank 1 is trusted again")
    assert cluster.run("rank").ok


def test_an_agent_that_was_stopped_tells_afterwards_what_has_happened(start):
    cluster = start("localhost:2")
    (agent,), tasks = agents_of(cluster), Path(f"/proc/{coordinator_of(cluster).pid}/task")

    def threads_of_python():
        names = []
        for each in tasks.glob("*/comm"):
            with contextlib.suppress(OSError):  # it has just ended
                names.append(each.read_text())
        return names.count("python\n")

    before = threads_of_python()
    suspend(agent.pid)
    wait_until(lambda: threads_of_python() < before, 6, "its connection is broken")
    engines_of(cluster)[1].kill()
    resume(agent.pid)
    wait_until(lambda: cluster.status().ranks[1] == "lost", 5, "rank 1 is lost")
    assert "SIGKILL" in cluster.topology().engines[1].reason, "its agent alone knows that"
    assert list(cluster.heal().replaced) == [1]
    assert cluster.run("rank").ok


def test_cells_of_two_groups_of_ranks_do_not_mix(four, in_background):
    barrier = threading.Barrier(2)

    def run(ranks, value):
        barrier.wait(5)
        return four.run(f"mine = {value}\nmine", ranks=ranks)

    left, right = in_background(run, "0-1", 1), in_background(run, "2-3", 2)
    assert [rank.value_repr for rank in left.result(10)] == ["1", "1"]
    assert [rank.value_repr for rank in right.result(10)] == ["2", "2"]
