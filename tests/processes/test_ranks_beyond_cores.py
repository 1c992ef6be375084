"""Many ranks on few cores: each gets its turn late, and none is blamed for that."""

import contextlib
import os
import re
import time
from pathlib import Path

import pytest

from jupyter_dist.launch.processes.open_files import usable_cores
from tests.patience import wait_until

from . import listener
from .leftovers import coordinator_of, engines_of

pytestmark = pytest.mark.slow
RANKS = 128
LOOKS_OF_A_CORE = 400
"""A second: those of 12 ranks, each twenty, and what else wakes the threads that look."""
LOOKS_OF_A_RANK = 3
"""A second, at least: when its relay says that it lives, and for what it has said."""
WATCHED_S = 2.0


BE_POLITE = """
import os
kept = rank
os.nice(19)
try:
    with open("/proc/self/autogroup", "w") as group:
        group.write("19")
except FileNotFoundError:
    pass  # this kernel does not share out cores by sessions
"""
"""Each rank is a session, and has as large a share of the cores as all other tests together."""


STARVE = """
import os, subprocess, sys, time
kept = rank
core = {min(os.sched_getaffinity(0))}
for thread in map(int, os.listdir("/proc/self/task")):
    with open(f"/proc/self/task/{thread}/comm") as comm:
        name = comm.read()
    os.sched_setaffinity(thread, core)
    if name.startswith(("ZMQbg/IO/", "jd-beats")):
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(12)]
try:
    time.sleep(7)
finally:
    for other in others:
        other.kill()
        other.wait()
"""
"""What answers heartbeats gets a core only when nothing else in the rank's session wants that."""


SLEEP_WITHOUT_CORE = """
import os, subprocess, sys, time
core = {min(os.sched_getaffinity(0))}
burn = "import sys, time; sys.stdin.read(1)\\nwhile time.monotonic() < float(sys.argv[1]): pass"
until = str(time.monotonic() + 4)
others = [
    subprocess.Popen([sys.executable, "-c", burn, until], stdin=subprocess.PIPE) for _ in range(12)
]
for other in others:
    os.sched_setaffinity(other.pid, core)
os.sched_setaffinity(0, core)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
try:
    for other in others:
        other.stdin.close()
    time.sleep(60)
finally:
    for other in others:
        other.kill()
        other.wait()
"""
"""Its main thread gets no core for four seconds, and all its other threads get what they want."""


def begin_to_spin(cluster, in_background):
    """Have all ranks ask for a core in a cell; returns when all are busy with it."""
    running = in_background(lambda: cluster.run("while True: pass"))
    wait_until(lambda: set(cluster.status().ranks.values()) == {"busy"}, 30, "all are busy")
    return running


def begin_to_wait(cluster, in_background):
    """Have all ranks sleep in a cell whose first line has been told; not many look meanwhile."""
    code = "print('waits')\nimport time\ntime.sleep(60)"
    running = listener.begin(in_background, cluster, code, word="waits")
    before, begin_s = looks_of(cluster), time.monotonic()
    time.sleep(WATCHED_S)
    looks = (looks_of(cluster) - before) / (time.monotonic() - begin_s)
    assert 0 < looks < LOOKS_OF_A_CORE * usable_cores() + LOOKS_OF_A_RANK * RANKS
    return running


def looks_of(cluster):
    """Return how often the ranks' threads have waked up that look after running cells."""
    count = 0
    for engine in engines_of(cluster):
        for thread in Path(f"/proc/{engine.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if (thread / "comm").read_text().startswith("jd-link"):
                    told = (thread / "status").read_text()
                    count += int(told.split("voluntary_ctxt_switches:")[1].split()[0])
    return count


def policies_of(process):
    """Return the scheduling policies of libzmq's network threads in a process."""
    found = set()
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        if (thread / "comm").read_text().startswith("ZMQbg/IO"):
            found.add(os.sched_getscheduler(int(thread.name)))
    return found


def silence_of(cluster, rank):
    """Return for how long a rank has been silent, in seconds; 0: it is not suspected."""
    engine = cluster.topology().engines[rank]
    assert engine.state != "lost", engine.reason
    told = re.match(
        r"no heartbeat for ([\d.]+) s, ([\d.]+) s of them without a core", engine.reason
    )
    return float(told[1]) if told else 0.0


def test_many_ranks_start_meet_are_interrupted_and_leave_nothing(
    start, home, in_background, within
):
    with within(30):
        cluster = start(f"localhost:{RANKS}")
    with within(3):
        assert cluster.run(BE_POLITE).ok
    with within(20):
        assert cluster.run("for _ in range(2): comm.barrier()").ok
    for begin_cell in (begin_to_wait, begin_to_spin):
        running = begin_cell(cluster, in_background)
        with within(12):
            assert len(cluster.interrupt()) == RANKS
            found = running.result(60)
        assert not [rank for rank in found if rank.status != "interrupted"]
    assert [rank.value_repr for rank in cluster.run("kept")] == [str(n) for n in range(RANKS)]
    assert len(engines_of(cluster)) == RANKS
    with within(10):
        cluster.stop()
    home.assert_nothing_left()


def test_a_rank_whose_main_thread_waits_for_a_core_is_interrupted_when_it_has_one(
    start, in_background
):
    cluster = start("localhost:2")
    cell = in_background(lambda: cluster.run(SLEEP_WITHOUT_CORE, ranks=[1]))
    pid = cluster.topology().engines[1].pid
    idle = os.SCHED_IDLE
    wait_until(lambda: os.sched_getscheduler(pid) == idle, 10, "it has no core any more")
    cluster.interrupt()
    assert cell.result(30)[0].status == "interrupted"


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="Linux does not tell here")
def test_a_rank_whose_heartbeats_wait_for_a_core_is_not_lost(start, in_background):
    cluster = start("localhost:2", suspect_after_s=1.2, lost_after_s=2.5)
    cell = in_background(lambda: cluster.run(STARVE, ranks=[1]))
    wait_until(lambda: silence_of(cluster, 1) > 3.5, 10, "it would be lost")
    source = dict(cluster.stacks(ranks=[1]))[1].source
    assert source in ("none", "python"), "a signal might end it"  # it may get a core just now
    assert cell.result(30)[0].status == "ok"
    wait_until(lambda: not silence_of(cluster, 1), 10, "it answers again")
    assert cluster.run("kept", ranks=[1])[0].value_repr == "1"


@pytest.mark.parametrize("more", [0, 1])
def test_network_threads_preempt_no_rank_where_there_are_more_ranks_than_cores(start, more):
    cluster = start(f"localhost:{usable_cores() + more}")
    policy = os.SCHED_BATCH if more else os.SCHED_OTHER
    assert all(policies_of(engine) == {policy} for engine in engines_of(cluster))
    # Its heartbeats have a thread that keeps the usual one.
    assert policies_of(coordinator_of(cluster)) == {policy, os.SCHED_OTHER}
