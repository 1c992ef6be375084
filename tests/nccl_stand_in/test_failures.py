"""Ranks that raise, die, hang or are interrupted while their device waits for its peers."""

import os
import signal

import pytest

from tests.gpu.losses import CAUSES, measure_loss
from tests.gpu.ranks_programs import total
from tests.matrix import NIGHTLY, only
from tests.patience import wait_until
from tests.processes.listener import Listener

pytestmark = pytest.mark.timeout(120)

MAKE = (
    "import cupy, time\nimport numpy as np\nfrom stand_in import get, put\n"
    "x = put(np.full(4, rank + 1.0, 'f4'))\n"
)
SETUP = f"{MAKE}float(get(comm.all_reduce(x))[0])"
HERE = "print('here', flush=True)\n"
REMOTE = {"NCCL_STAND_IN_REMOTE_ERROR": "1"}


def statuses(result):
    return [rank.status for rank in result]


def has_finished(listener, rank):
    return any(each.rank == rank for each in listener.finished)


@pytest.fixture
def formed(ranks):
    """Start ranks whose NCCL is formed."""

    def make(count, **env):
        made = ranks(count, **env)
        assert made.values(SETUP) == total(count)
        return made

    return make


@pytest.mark.parametrize(
    ("env", "then"),
    [
        ({}, ""),
        pytest.param({"NCCL_STAND_IN_ABORT_S": "1"}, "", marks=NIGHTLY),
        ({}, "\n    cupy.cuda.runtime.free(0)"),
    ],
    ids=["at once", "a slow abort", "while the driver hangs"],
)
@pytest.mark.slow
def test_a_peer_that_never_comes_is_told_at_the_deadline(formed, in_background, env, then):
    two = formed(2, **env)
    call = f"comm.all_reduce(x){then}"
    code = f"{HERE}comm.timeout_s = 1.5\nif rank == 0:\n    {call}\nelse:\n    time.sleep(4)"
    listener = Listener()
    running = in_background(two.run, code, watcher=listener)
    listener.wait_for("here", ranks=[0, 1])
    assert two.cluster.status().ranks[0] != "lost"
    assert two.cluster.stacks()[0]
    wait_until(lambda: has_finished(listener, 0), 1.5 + 3, "rank 0 is told at its deadline")
    result = running.result(20)
    assert result[0].error.ename == "CollectiveTimeout"
    if not then:
        assert "all_reduce(float32[4], sum)" in result[0].error.evalue
    assert two.values("comm.timeout_s = 60\n" + SETUP) == total(2)


@pytest.mark.slow
def test_a_rank_that_never_comes_to_the_first_call_is_named(ranks):
    two = ranks(2)
    result = two.run(f"{MAKE}comm.timeout_s = 1\nif rank == 0:\n    comm.all_reduce(x)")
    assert result[0].error.ename == "CollectiveMissed"
    assert "rank 1" in result[0].error.evalue
    assert two.values("comm.timeout_s = 60\n" + SETUP) == total(2)


@pytest.mark.parametrize(
    "waits", only(["comm.all_reduce(x)"], ["comm.all_reduce(x)", "get(comm.all_reduce(x))"])
)
def test_an_interrupt_ends_a_hung_collective(formed, in_background, within, waits):
    two = formed(2)
    listener = Listener()
    code = f"{HERE}if rank == 0:\n    {waits}\nelse:\n    time.sleep(60)"
    running = in_background(two.run, code, watcher=listener, timeout_s=60)
    listener.wait_for("here", ranks=[0, 1])
    two.cluster.interrupt()
    with within(5):
        assert statuses(running.result(30)) == ["interrupted"] * 2
    assert two.values(SETUP) == total(2)


@pytest.mark.parametrize("env", only([{}], [{}, REMOTE], at_night=[REMOTE]))
@pytest.mark.parametrize("lost", only([0], [0, 2]))
def test_a_killed_rank_is_named_and_the_others_keep_what_they_have(
    formed, in_background, within, sweep, env, lost
):
    three = formed(3, **env)
    three.values("kept = rank * 11")
    listener, before = Listener(), three.pids()
    code = f"{HERE}if rank == {lost}:\n    time.sleep(60)\nget(comm.all_reduce(x))\n'went on'"
    running = in_background(three.run, code, watcher=listener, timeout_s=60)
    listener.wait_for("here", ranks=range(3))
    os.kill(before[lost], signal.SIGKILL)
    with within(3):
        result = running.result(30)
    wanted = ["lost" if rank == lost else "peer_failed" for rank in range(3)]
    assert statuses(result) == wanted
    others = [rank for rank in range(3) if rank != lost]
    assert all(f"rank {lost} is lost" in str(result[rank].error) for rank in others)
    three.cluster.heal()
    after = three.pids()
    assert [rank for rank in range(3) if before[rank] != after[rank]] == [lost]
    kept = three.values("globals().get('kept')")
    assert kept == [None if rank == lost else str(rank * 11) for rank in range(3)]
    assert three.values(SETUP) == total(3)


def test_when_a_rank_raises_the_others_do_and_the_next_cell_works(formed):
    two = formed(2)
    for _ in range(3):
        result = two.run("if rank:\n    1 / 0\nget(comm.all_reduce(x))")
        assert statuses(result) == ["peer_failed", "raised"]
        assert "rank 1 raised ZeroDivisionError" in str(result[0].error)
        assert two.values(SETUP) == total(2)


def test_children_of_a_split_work_and_break_by_themselves(formed):
    four = formed(4)
    child = "child = comm.split(rank % 2, -rank)\nchild.rank, float(get(child.all_reduce(x))[0])"
    assert four.values(child) == ["(1, 4.0)", "(1, 6.0)", "(0, 4.0)", "(0, 6.0)"]
    result = four.run("comm.timeout_s = 1\nif rank == 0:\n    child.all_reduce(x)")
    assert result[0].error.ename in {"CollectiveTimeout", "PeerFailed"}
    assert four.values("comm.timeout_s = 60\n" + SETUP) == total(4)
    assert four.values(child) == ["(1, 4.0)", "(1, 6.0)", "(0, 4.0)", "(0, 6.0)"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [{"NCCL_STAND_IN_INIT_S": "0.5", "NCCL_STAND_IN_LAUNCH_S": "0.2"}, {"NCCL_COMM_BLOCKING": "1"}],
)
def test_slow_and_blocking_calls_end_well(formed, env):
    two = formed(2, **env)
    result = two.run("if rank:\n    time.sleep(0.5)\nget(comm.all_reduce(x))\nNone")
    assert result.ok


@pytest.mark.slow
def test_a_message_that_blocks_in_nccl_ends_at_its_deadline(formed):
    two = formed(2, NCCL_COMM_BLOCKING="1", NCCL_STAND_IN_CONNECTS="1")
    result = two.run(
        "comm.timeout_s = 1\nif rank == 0:\n    comm.send(x, 1)\nelse:\n    time.sleep(3)"
    )
    assert result[0].error.ename == "CollectiveTimeout"
    assert "send" in result[0].error.evalue
    assert result[0].duration_s < 3
    assert two.values("comm.timeout_s = 60\n" + SETUP) == total(2)


@pytest.mark.slow
@pytest.mark.parametrize("cause", [each for each in CAUSES if each != "interrupt"])
def test_ranks_are_told_within_seconds(formed, in_background, tmp_path, sweep, cause):
    told = measure_loss(formed(2), in_background, tmp_path, cause, wait="get(comm.all_reduce(x))")
    assert (told.error, told.is_gone) == (CAUSES[cause].error, True)
    assert told.told_s <= told.aborted_s < 5


FACTS = (
    "import gc, psutil\ngc.collect()\nme = psutil.Process()\n"
    "me.num_threads(), me.num_fds(), me.memory_info().rss"
)


TIMES, ROUNDS = 60, 5
KEPT_BYTES = 32 << 10
"""More than two cells and an error leave in a rank: 16 KiB in the one that raises, 4 in the other."""


@pytest.mark.slow
def test_breaking_and_forming_leaves_nothing_behind(formed):
    two = formed(2)

    def break_and_form(times):
        for _ in range(times):
            assert statuses(two.run("get(comm.all_reduce(x))\n1 / rank"))[0] == "raised"
            assert two.values(SETUP) == total(2)

    def facts():
        return [eval(text) for text in two.values(FACTS)]

    def has_grown(before, after):
        return any(
            new[0] > old[0] or new[1] > old[1] or new[2] - old[2] >= TIMES * KEPT_BYTES
            for new, old in zip(after, before, strict=True)
        )

    # An allocator may take memory once more that it keeps; what is left behind adds up each time.
    seen = [facts()]
    while len(seen) <= ROUNDS:
        break_and_form(TIMES)
        seen.append(facts())
        if not has_grown(*seen[-2:]):
            return
    raise AssertionError(seen)
