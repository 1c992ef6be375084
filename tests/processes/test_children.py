"""Whatever cells start ends with the rank that started it, however that ends."""

import itertools
import os
import subprocess

import psutil
import pytest

from jupyter_dist.launch.processes.descendants import _parents
from jupyter_dist.launch.processes.descendants import children_of as children_of_process
from tests.matrix import each_value_once, only
from tests.suspending import suspend

from .leftovers import (
    agents_of,
    coordinator_of,
    engines_of,
    is_alive,
    wait_until,
    zygotes_of,
)
from .listener import begin

END_TIMEOUT_S = 12.0

START_CHILDREN = """
import ctypes, os, signal, subprocess, sys, time

def start_children():
    def sleep(**options):
        return subprocess.Popen(["sleep", "1000"], **options).pid
    pids = {"child": sleep(), "session": sleep(start_new_session=True)}
    shell = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
    pids |= {"shell": shell.pid, "grandchild": int(shell.stdout.readline())}
    pids["stopped"] = sleep()
    os.kill(pids["stopped"], signal.SIGSTOP)
    ignoring = ["sh", "-c", "trap '' TERM INT HUP; echo; while :; do sleep 1; done"]
    stubborn = subprocess.Popen(ignoring, stdout=subprocess.PIPE)
    stubborn.stdout.readline()
    pids["stubborn"] = stubborn.pid
    if not (copy := os.fork()):
        time.sleep(1000)
    pids["copy"] = copy
    read, write = os.pipe()
    for kind in ("daemon", "daemon with an empty environment"):
        if not os.fork():  # its child ends before it does
            os.setsid()
            if pid := os.fork():
                os.write(write, b"%d\\n" % pid)
                os._exit(0)
            if "empty" in kind:
                os.execve("/bin/sleep", ["sleep", "1000"], {})
            time.sleep(1000)
        os.wait()
        pids[kind] = int(os.read(read, 100))
    return pids
"""
STATES = {
    "idle": "",
    "busy": "while True: pass",
    "waiting": "subprocess.run(['sleep', '1000'])",
    "unresponsive": (
        "for s in (2, 15): signal.signal(s, signal.SIG_IGN)\nctypes.CDLL(None).sleep(1000)"
    ),
    "stopped": "while True: pass",
}


def children_of(cluster, in_background, state="idle"):
    """Start children of every kind on all ranks, and bring these into a state."""
    result = cluster.run(f"{START_CHILDREN}\nstart_children()")
    found = [
        (f"{kind} of rank {rank.rank}", psutil.Process(pid))
        for rank in result
        for kind, pid in eval(rank.value_repr).items()
    ]
    assert len(found) == 9 * cluster.world_size
    assert all(is_alive(process) for _, process in found)
    if STATES[state]:
        begin(in_background, cluster, f"print('here')\n{STATES[state]}")
    if state == "stopped":
        for engine in engines_of(cluster):
            suspend(engine.pid)
    return found


def living(children):
    """Say which of them live."""
    return [kind for kind, process in children if is_alive(process)]


def assert_all_end(children):
    """Wait for the end of all; end what is left, and fail naming it."""
    try:
        wait_until(lambda: not living(children), END_TIMEOUT_S, "all children have ended")
    except AssertionError as error:
        raise AssertionError(f"{error}; left: {living(children)}") from None
    finally:
        for _kind, process in children:
            if is_alive(process):
                process.kill()


@pytest.mark.parametrize("state", only(["busy"], STATES))
def test_what_cells_have_started_is_gone_when_stop_returns(start, in_background, state):
    cluster = start("localhost:2")
    children = children_of(cluster, in_background, state)
    cluster.stop()
    left = living(children)
    assert_all_end(children)
    assert not left


ENDS = {
    "coordinator": lambda cluster: [coordinator_of(cluster)],
    "agent": agents_of,
    "zygote": zygotes_of,
    "engines": engines_of,
}


@pytest.mark.parametrize(
    ("victims", "state"), each_value_once([*itertools.product(ENDS, ["idle", "busy"])])
)
def test_what_cells_have_started_ends_with_what_is_killed(
    start, sweep, in_background, victims, state
):
    cluster = start("localhost:2")
    children = children_of(cluster, in_background, state)
    found = ENDS[victims](cluster)
    for process in found:
        suspend(process.pid)  # all at once: none may act upon the end of another
    for process in found:
        process.kill()
    assert_all_end(children)


def test_children_of_a_lost_rank_end_and_those_of_others_live_on(start, in_background):
    cluster = start("localhost:2")
    children = children_of(cluster, in_background)
    mine = [child for child in children if child[0].endswith("rank 1")]
    others = [child for child in children if child not in mine]
    cluster.run("kept = rank")
    engines_of(cluster)[1].kill()
    wait_until(lambda: cluster.status().ranks[1] == "lost", 5, "rank 1 is lost")
    cluster.heal()
    assert_all_end(mine)
    assert len(living(others)) == 9
    assert cluster.run("kept", ranks=0)[0].value_repr == "0"
    assert cluster.run("rank")[1].value_repr == "1"
    assert len(living(others)) == 9
    cluster.stop()
    assert_all_end(others)


def test_helpers_of_cells_live_from_cell_to_cell_and_orphans_are_reaped(start):
    cluster = start("localhost:2")
    cluster.run("import multiprocessing, os\npool = multiprocessing.Pool(2)")
    cluster.run("for _ in range(5): os.system('sleep 0 &')")
    result = cluster.run("pool.map(abs, [-1, rank])")
    assert [rank.value_repr for rank in result] == ["[1, 0]", "[1, 1]"]
    (zygote,), engines = zygotes_of(cluster), engines_of(cluster)
    wait_until(lambda: len(zygote.children()) == len(engines), 5, "the orphans are reaped")
    assert cluster.run("pool.terminate()\npool.join()").ok


def test_what_is_marked_to_stay_stays(start, tmp_path):
    cluster = start("localhost:1")
    code = (
        "import os, subprocess\n"
        "env = {**os.environ, 'JUPYTER_DIST_KEEP': '1'}\n"
        "del env['TMPDIR']\n"  # by which this test finds what is left
        "subprocess.Popen(['sleep', '1000'], env=env).pid"
    )
    kept = psutil.Process(int(cluster.run(code)[0].value_repr))
    try:
        engines_of(cluster)[0].kill()
        wait_until(lambda: cluster.status().ranks[0] == "lost", 5, "rank 0 is lost")
        cluster.heal()
        assert is_alive(kept)
        cluster.stop()
        assert is_alive(kept)
        assert kept.ppid() in (0, 1) or "dist" not in kept.parent().name()
    finally:
        kept.kill()


def test_children_are_found_with_and_without_the_lists_of_the_kernel():
    child = subprocess.Popen(["sleep", "1000"])
    try:
        me = os.getpid()
        assert child.pid in children_of_process(me)
        assert child.pid in [pid for pid, parent in _parents() if parent == me]
    finally:
        child.kill()
        child.wait()


def test_a_program_that_replaces_itself_for_ever_is_caught_up_with(start):
    cluster = start("localhost:1")
    code = (
        "import os, time\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    while True:\n"
        "        if os.fork(): os._exit(0)\n"
        "        time.sleep(0.002)\n"
    )
    cluster.run(code)
    cluster.stop()  # the fixture looks for what is left
