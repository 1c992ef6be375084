"""A push or pull that blocks in a rank is named, and ends when someone wants it to."""

import contextlib
import os
import signal
import threading

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import TransferError
from tests.facts import assert_tells
from tests.patience import wait_until

DEFINE = """
import os, time, threading, ctypes, signal
lock = threading.Lock(); lock.acquire()
class Blocks:
    def __init__(self, code): self.code = code
    def __reduce__(self): eval(self.code); return (int, ())
def unresponsive(seconds, mark):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    open(mark, "x").close()
    try: ctypes.CDLL(None).sleep(seconds)
    finally: signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
state = f"kept {rank}"
"""
BLOCKS = [
    "time.sleep(60)",
    "lock.acquire()",
    "[None for _ in iter(int, 1)]",
]


class Blocks:
    """Blocks on rank 1 when it is rebuilt."""

    def __init__(self, code):
        self.code = f"{code} if rank == 1 else 5"

    def __reduce__(self):
        return eval, (f"eval({self.code!r}, get_ipython().user_ns)",)


@pytest.fixture
def prepared(four):
    """Four ranks whose state must be the same in the end."""
    assert four.run(DEFINE).ok
    yield four
    four.interrupt()
    states = [rank.value_repr for rank in four.run("state", timeout_s=20)]
    assert states == [f"'kept {rank}'" for rank in range(4)]
    assert [rank.value_repr for rank in four.run("comm.all_gather_object(rank)")] == [
        "[0, 1, 2, 3]"
    ] * 4


def push(cluster, code, **options):
    cluster.push({"thing": Blocks(code)}, **options)


def pull(cluster, code, **options):
    cluster.run(f"thing = Blocks({code!r}) if rank == 1 else 5")
    cluster.pull("thing", **options)


def await_busy(cluster, what):
    def doing():
        return [engine.cell for engine in cluster.topology().engines]

    wait_until(lambda: doing() == ["", what, "", ""], 10, "rank 1 alone is busy")


@pytest.mark.parametrize("code", BLOCKS)
@pytest.mark.parametrize("move", [push, pull])
def test_an_interrupt_ends_it(prepared, in_background, within, move, code):
    moving = in_background(move, prepared, code)
    await_busy(prepared, f"{move.__name__} of thing")
    with within(3):
        assert prepared.interrupt() == (1,)
        with pytest.raises(TransferError, match="rank 1: interrupted"):
            moving.result(10)


@pytest.mark.parametrize("move", [push, pull])
def test_a_time_limit_ends_it(prepared, within, move):
    with within(5), pytest.raises(TransferError, match=r"rank 1: .*time limit .* 0\.5 s"):
        move(prepared, BLOCKS[1], timeout_s=0.5)
    others = prepared.run("thing", ranks=[0, 2, 3])
    assert {rank.value_repr for rank in others} == {"5"}


def test_ctrl_c_in_the_notebook_ends_it_and_says_how(prepared, within):
    def press():
        await_busy(prepared, "push of thing")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with within(5), pytest.raises(KeyboardInterrupt, match="rank 1: interrupted"):
        push(prepared, BLOCKS[0])
    assert [rank.value_repr for rank in prepared.run("thing", ranks=[0, 2, 3])] == ["5"] * 3


def test_everybody_hears_who_holds_it_up_and_where(prepared, in_background):
    said, waits = [], []
    moving = in_background(pull, prepared, BLOCKS[1], on_stage=said.append)
    await_busy(prepared, "pull of thing")
    wait_until(lambda: "In[1]:5" in prepared.explain(), 12, "explain names the place")
    explained = prepared.explain()
    assert_tells(explained, "of thing: rank 1 ", "packing")
    assert_tells(prepared.topology().note, "rank 1 ", "packing")
    other = Cluster(prepared._connection)
    with contextlib.ExitStack() as stack:
        stack.callback(other.detach)
        other._take_part("visit")
        waiting = in_background(other.pull, "state", on_stage=waits.append)
        wait_until(lambda: waits, 5, "the other client is told")
        other.interrupt()
        assert waiting.result(10) == {rank: f"kept {rank}" for rank in range(4)}
    assert_tells(waits[0], "of thing: rank 1 ", "packing")
    with pytest.raises(TransferError):
        moving.result(10)
    assert any("rank 1 " in text and "packing" in text for text in said)
    assert "nothing is" in prepared.explain()


@pytest.mark.slow
def test_a_rank_that_does_not_answer_the_interrupt_is_left_to_itself(
    prepared, in_background, tmp_path
):
    is_unresponsive = tmp_path / "is_unresponsive"
    moving = in_background(pull, prepared, f"unresponsive(9, {str(is_unresponsive)!r})")
    await_busy(prepared, "pull of thing")
    wait_until(is_unresponsive.exists, 10, "signals are blocked there")
    prepared.interrupt()
    with pytest.raises(TransferError, match=r"rank 1: .*busy"):
        moving.result(15)
    assert_tells(prepared.explain(), "rank 1 ", "still busy", "of thing")
    wait_until(lambda: prepared.status().ranks.get(1) == "idle", 15, "it is idle again")
