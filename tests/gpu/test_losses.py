"""Calls on real GPUs that never end on their own: who says so, how soon, and what is left."""

import os
import time

import psutil
import pytest

from jupyter_dist.probe.nccl_ras import ANSWER_TIMEOUT_S, ask_ras
from tests.patience import let_pass
from tests.suspending import resume, suspend

from ..processes.leftovers import wait_until  # noqa: TID252  (as the conftest beside)
from ..processes.listener import Listener  # noqa: TID252
from .losses import CAUSES, measure_loss
from .ranks_programs import SETUP, total

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

SUM = total(2)


# --- the deadline --------------------------------------------------------------------------------


def test_a_deadline_holds_while_the_main_thread_waits_in_the_driver(two, in_background):
    code = (
        "comm.timeout_s = 2\n"
        "if rank == 0:\n"
        "    y = comm.all_reduce(x)\n"
        # To free memory the driver waits for the device, which waits for rank 1.
        "    cupy.cuda.runtime.free(cupy.cuda.runtime.malloc(1 << 20))\n"
        "else:\n    time.sleep(8)"
    )
    running = in_background(two.run, code, timeout_s=60)
    let_pass(1)
    asked_s = time.monotonic()
    assert two.cluster.status().ranks[0] in ("busy", "collective")
    assert time.monotonic() - asked_s < 1
    result = running.result(60)
    assert result[0].error.ename == "CollectiveTimeout"
    assert result[0].duration_s < 5
    assert two.values("comm.timeout_s = 60\n" + SETUP) == SUM


def test_a_send_that_blocks_in_nccl_ends_and_the_next_start_works(ranks):
    # A message makes its own connection, so that rank 0 is inside ncclSend, not behind it.
    two = ranks(2, NCCL_COMM_BLOCKING="1")
    assert two.values(SETUP) == SUM
    code = "comm.timeout_s = 3\nif rank == 0:\n    comm.send(x, 1)\nelse:\n    time.sleep(8)"
    result = two.run(code, timeout_s=60)
    assert result[0].status != "ok"
    told = f"{result[0].error.ename}: {result[0].error.evalue}"
    assert told.startswith("CollectiveTimeout") or "has not let go" in told, told
    two.cluster.stop()
    assert ranks(2).values(SETUP) == SUM


def test_an_interrupt_reaches_ranks_that_form_nccl(ranks, in_background, tmp_path):
    two = ranks(2)
    code = (
        "import cupy, pathlib, time\n"
        f"if rank == 0:\n    pathlib.Path({str(tmp_path)!r}, 'forming').touch()\n"
        "else:\n    time.sleep(60)\n"
        "comm.all_reduce(cupy.ones(4))"
    )
    running = in_background(two.run, code, timeout_s=80)
    wait_until((tmp_path / "forming").exists, 60, "rank 0 comes to its first call")
    let_pass(1)
    two.cluster.interrupt()
    assert {rank.status for rank in running.result(30)} == {"interrupted"}
    assert two.values(SETUP) == SUM


# --- how soon ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", CAUSES)
def test_ranks_are_told_within_seconds(two, in_background, tmp_path, record_property, sweep, cause):
    told = measure_loss(two, in_background, tmp_path, cause)
    record_property("told_s", round(told.told_s, 3))
    record_property("aborted_s", round(told.aborted_s, 3))
    print(f"| {cause} | {told.told_s:.2f} s | {told.aborted_s:.2f} s |")
    assert told.error == CAUSES[cause].error
    assert told.is_gone, "NCCL has not let go of the device"
    assert told.told_s < 5
    assert told.aborted_s < 5


# --- what NCCL says ------------------------------------------------------------------------------

HANGS = """\
y = comm.all_reduce(x)
if rank == 0:
    z = comm.all_reduce(x)
while not os.path.exists({gate!r}):
    time.sleep(0.02)
if rank == 1:
    z = comm.all_reduce(x)
float(z[0])
"""


@pytest.fixture
def hanging(two, in_background, tmp_path):
    """Two ranks of which one is a call ahead; it ends when the gate is touched."""
    address = two.values("os.environ.get('NCCL_RAS_ADDR', '')")[0].strip("'")
    version = int(two.values("from cupy.cuda import nccl\nnccl.get_version()")[0])
    if not address or version < 22807:
        pytest.skip(f"NCCL {version} has no RAS that speaks JSON, or no address: {address!r}")
    listener, gate = Listener(), tmp_path / "gate"
    cell = HANGS.format(gate=str(gate))
    running = in_background(two.run, cell, timeout_s=80, watcher=listener)
    yield two, address, listener, gate, running
    gate.touch()
    running.result(60)


def ask_timed(address, timeout_s=ANSWER_TIMEOUT_S):
    began_s = time.monotonic()
    report = ask_ras(address, timeout_s)
    took_s = time.monotonic() - began_s
    print(f"RAS answered in {took_s:.2f} s: {report}")
    return report, took_s


def test_nccl_says_which_rank_is_behind(hanging):
    two, address, listener, gate, running = hanging
    listener.wait_for_note("NCCL says", within_s=40)
    report, took_s = ask_timed(address)
    assert took_s < ANSWER_TIMEOUT_S + 0.5
    (communicator,) = report.communicators
    assert communicator.size == 2
    pids = {engine.rank: engine.pid for engine in two.cluster.topology().engines}
    assert {each.rank: each.pid for each in communicator.ranks} == pids
    counts = {each.rank: each.counts["AllReduce"] for each in communicator.ranks}
    assert counts[0] - counts[1] == 1
    note = next(note for note in listener.notes if "NCCL says" in note)
    assert note.endswith(
        f"; NCCL says: rank 0 has launched AllReduce {counts[0]} times, rank 1 {counts[1]} times"
    )
    gate.touch()
    result = running.result(60)
    assert [rank.value_repr for rank in result] == ["3.0"] * 2


PATIENCE_S = 20.0


def test_nccl_says_that_a_stopped_rank_is_silent(hanging, sweep, record_property):
    # Later than a verdict waits for it: on 2026-11-26 it had not answered within ANSWER_TIMEOUT_S.
    two, address, _listener, _gate, _running = hanging
    let_pass(1)
    pid = two.cluster.topology().engines[1].pid
    suspend(pid)
    try:
        report, took_s = ask_timed(address, PATIENCE_S)
    finally:
        resume(pid)
    record_property("RAS beside a stopped rank answered in, s", round(took_s, 2))
    assert report is not None, "the port is shared, and only one of two ranks was stopped"
    (communicator,) = report.communicators
    assert 0 in [each.rank for each in communicator.ranks]
    assert 1 in [each.rank for each in communicator.missing]


# --- what is left --------------------------------------------------------------------------------

ROUNDS, WARM_ROUNDS = 20, 10
"""What was split off ends on a thread: where rounds are quick, some are on their way out."""
MOST_LEAKED_BYTES = 64 << 20


class Levels:
    """What a rank holds at the end of each round; only what the first ones take may stay."""

    def __init__(self, made):
        self._made = made
        self._pids = [engine.pid for engine in made.cluster.topology().engines]
        self.free, self.threads, self.files = [], [], []

    def take(self):
        """Note what is free on the device, and how many threads and shared files there are."""
        free = self._made.values(
            "cupy.get_default_memory_pool().free_all_blocks()\ncupy.cuda.runtime.memGetInfo()[0]"
        )
        self.free.append(min(map(int, free)))
        self.threads.append(max(psutil.Process(pid).num_threads() for pid in self._pids))
        self.files.append(len([name for name in os.listdir("/dev/shm") if name.startswith("nccl")]))

    def assert_level(self):
        """Fail when something has grown since it was warm."""
        print(f"free MiB {[each >> 20 for each in self.free]}")
        print(f"threads {self.threads}, files in /dev/shm {self.files}")
        warm = WARM_ROUNDS - 1
        assert self.free[warm] - self.free[-1] < MOST_LEAKED_BYTES
        assert self.threads[-1] <= self.threads[warm] + 2, "a thread may still be on its way out"
        assert self.files[-1] <= self.files[warm]


@pytest.mark.timeout(240)
def test_communicators_that_were_aborted_leave_nothing(two):
    levels = Levels(two)
    for _ in range(ROUNDS):
        result = two.run("if rank:\n    1 / 0\ncomm.all_reduce(x).get()", timeout_s=30)
        assert [rank.status for rank in result] == ["peer_failed", "raised"]
        assert two.values(SETUP, timeout_s=30) == SUM
        levels.take()
    levels.assert_level()


@pytest.mark.timeout(240)
def test_communicators_that_were_split_off_and_dropped_leave_nothing(two):
    levels = Levels(two)
    code = (
        "child = comm.split(0, -rank)\nfound = float(child.all_reduce(x)[0])\n"
        "del child\nimport gc\ngc.collect()\nfound"
    )
    for _ in range(ROUNDS):
        assert two.values(code, timeout_s=30) == SUM
        levels.take()
    levels.assert_level()
