"""Profiles of ranks that run: who is slow and where, also where something goes wrong meanwhile."""

import json
import os
import random
import signal
from importlib.util import find_spec

import psutil
import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.probe.py_spy import find_py_spy
from tests.ipython_shell import shell_with_magics
from tests.matrix import only

from .listener import Listener
from .programs import dist

PLANTED = """
import time, random
import numpy as np
numbers = list(range(60_000)); random.Random(0).shuffle(numbers)
def load():
    time.sleep(DELAY if rank == SLOW and WHERE == "load" else 0.004)
def compute():
    until = time.perf_counter() + (DELAY if rank == SLOW and WHERE == "compute" else 0.001)
    while time.perf_counter() < until:
        pass
def native():
    for _ in range(3 if rank == SLOW and WHERE == "native" else 0):
        sorted(numbers)
for step in range(STEPS):
    load()
    compute()
    native()
    comm.all_reduce(np.ones(8))
"""
LINES = {"load": (6,), "compute": (8, 9, 10), "native": (12, 13)}
"""Those at which a rank loses time that is slow there."""
QUICK_CASES, NIGHTLY_CASES = range(2), range(6, 20)
FOREVER = "import time\nprint('here')\nwhile True:\n    time.sleep(0.01)"


def plant(seed, steps=30):
    """Return a cell with a slow rank, that rank, and the lines where it is slow."""
    chance = random.Random(seed)
    slow, where = chance.randrange(4), sorted(LINES)[seed % 3]
    given = {
        "SLOW": slow,
        "WHERE": repr(where),
        "DELAY": chance.uniform(0.02, 0.05),
        "STEPS": steps,
    }
    settings = "; ".join(f"{name} = {value}" for name, value in given.items())
    return settings + PLANTED, slow, {f"In[9]:{line}" for line in LINES[where]}


@pytest.mark.parametrize("seed", only(QUICK_CASES, range(20), at_night=NIGHTLY_CASES))
def test_the_planted_slow_rank_and_its_line_are_named(four, seed):
    code, slow, sites = plant(seed)
    with four.begin_profile() as profiling:
        assert four.run(code, label=9).ok
    found = profiling.end().slowness
    assert found.ranks == (slow,), found
    assert found.place.site in sites, found


def test_idle_ranks_are_said_to_be_idle_and_nothing_is_left(four):
    before = threads_of(four)
    profile = four.profile(0.2)
    assert profile.slowness.ranks == ()
    assert sorted(profile.ranks) == [0, 1, 2, 3]
    assert all(
        own.idle_s == pytest.approx(profile.window.seconds) for own in profile.times.values()
    )
    after = threads_of(four)
    assert all(now - was <= 1 for was, now in zip(before, after, strict=True)), "one that answers"


def threads_of(cluster):
    result = cluster.run("import threading\nthreading.active_count()")
    return [int(rank.value_repr) for rank in result]


def test_there_is_one_profile_at_a_time_and_the_first_one_goes_on(four):
    with four.begin_profile() as first:
        with pytest.raises(UsageError, match="another profile"):
            four.begin_profile(ranks=[1, 2])
        with pytest.raises(UsageError, match="another profile"):
            four.profile(0.1, mode="memory")
    assert sorted(first.end().ranks) == [0, 1, 2, 3]
    assert not first.end().problems


def test_what_cannot_be_meant_is_refused_and_nothing_runs(four):
    for mode in ("nonsense", "jax", "torch"):
        with pytest.raises(UsageError, match=mode):
            four.begin_profile(mode=mode)
    four.profile(0.05)


def test_memory_is_told_by_rank_and_line(four):
    with four.begin_profile(mode="memory") as profiling:
        assert four.run("kept = [bytes(1000) for _ in range(1000 * (rank + 1))]", label=3).ok
    profile = profiling.end()
    for rank, own in profile.ranks.items():
        assert own.allocations[0].site == "In[3]:1"
        assert own.allocations[0].nbytes >= 1_000_000 * (rank + 1)
    four.run("del kept")


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
def test_native_samples_have_calls_of_c_or_the_reason_why_not(four):
    sleep = "import time\nfor _ in range(200):\n    time.sleep(0.01)"
    with four.begin_profile(ranks=[1], native=True) as profiling:
        assert four.run(sleep, label=6, ranks=[1]).ok
    profile = profiling.end()
    (note,) = profile.notes
    if "py-spy may not look" in note:
        pytest.skip(f"containers may forbid it: {note}")
    assert "py-spy took the samples" in note
    sites = [{frame.site for frame in sample.stack} for sample in profile.samples[1]]
    assert any("In[6]:3" in seen and any(".so" in site for site in seen) for seen in sites)
    assert {place.site for place in profile.times[1].places} <= {"In[6]:2", "In[6]:3"}


@pytest.mark.skipif(find_spec("memray") is None, reason="memray is not installed")
def test_native_memory_has_what_c_allocates(four):
    allocate = (
        "import sqlite3\nkept = sqlite3.connect(':memory:')\nkept.execute('create table t (x)')\n"
    )
    allocate += "kept.execute('insert into t values (zeroblob(20000000))')"
    with four.begin_profile(ranks=[2], mode="memory", native=True) as profiling:
        assert four.run(allocate, label=3, ranks=[2]).ok
    profile = profiling.end()
    assert "memray took note" in profile.notes[0]
    largest = profile.ranks[2].allocations[0]
    assert largest.site == "In[3]:4"
    assert largest.nbytes > 20_000_000, "tracemalloc does not see it"
    four.run("kept.close()", ranks=[2])


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
def test_py_spy_ends_with_its_rank(start):
    cluster = start("localhost:2")
    profiling = cluster.begin_profile(native=True)
    rank = psutil.Process(cluster.topology().engines[1].pid)
    looking = [each for each in rank.children() if each.name() == "py-spy"]
    rank.kill()
    psutil.wait_procs(looking, timeout=30)
    assert not any(each.is_running() for each in looking)
    assert list(profiling.end().problems) == [1]


def test_the_terminal_shows_the_same(four, shared, tmp_path, in_background, monkeypatch):
    shared.enter(monkeypatch)
    listener = Listener()
    code, slow, _ = plant(1, steps=100_000)
    ended = in_background(four.run, f"print('here')\n{code}", label=9, watcher=listener)
    listener.wait_for("here", ranks=range(4))
    name = four.name
    trace = tmp_path / "trace.json"
    status, out, _ = dist("profile", name, "--for", "0.5s", "--json", "--trace", trace)
    found = json.loads(out)
    assert (status, found["slow_ranks"], found["cluster"]) == (0, [slow], name)
    assert set(found["ranks"]) == {"0", "1", "2", "3"}
    assert json.loads(trace.read_bytes())["traceEvents"]
    assert dist("profile", name, "--for", "0s")[0] == 2
    assert dist("profile", name, "--with", "nonsense")[0] == 2
    four.interrupt()
    assert {rank.status for rank in ended.result(30)} == {"interrupted"}


def test_a_cell_is_profiled_from_its_first_to_its_last_line(four, shared, tmp_path, monkeypatch):
    shared.enter(monkeypatch)
    with shell_with_magics(tmp_path / "ipython") as shell:
        shell.run_line_magic("dist_attach", f"{four.name} --take-over")
        run = shell.run_cell("%%spmd --profile\nimport time\ntime.sleep(0.3)\ncomm.barrier()")
        assert run.success
        assert shell.run_cell("%%spmd --profile memory\nkept = bytes(100_000)").success
        failed = shell.run_cell("%%spmd --profile\n1 / 0")
        assert "ZeroDivisionError" in str(failed.error_in_exec)
        both = shell.run_cell("%%spmd --profile --background\n1")
        assert isinstance(both.error_in_exec, UsageError)
        shell.run_line_magic("dist_profile", "0.1s -o found")
        assert sorted(shell.user_ns["found"].ranks) == [0, 1, 2, 3]


def test_a_rank_that_is_lost_meanwhile_is_named_and_the_others_are_told_of(start, in_background):
    cluster, listener = start("localhost:3"), Listener()
    ended = in_background(cluster.run, FOREVER, watcher=listener)
    listener.wait_for("here", ranks=range(3))
    profiling = cluster.begin_profile()
    os.kill(cluster.topology().engines[1].pid, signal.SIGKILL)
    profiling.wait(0.2)
    profile = profiling.end()
    assert sorted(profile.ranks) == [0, 2]
    assert list(profile.problems) == [1]
    assert profile.samples[0]
    cluster.interrupt()
    ended.result(30)


@pytest.mark.slow
def test_a_rank_whose_interpreter_is_held_is_the_slow_one_at_the_line_seen_from_outside(
    four, in_background
):
    held = "import ctypes\nprint('here')\nif rank == 1:\n    ctypes.PyDLL(None).sleep(12)\ncomm.barrier()"
    listener = Listener()
    ended = in_background(four.run, held, label=5, watcher=listener)
    listener.wait_for("here", ranks=[0, 2, 3])
    profile = four.profile(0.5)
    assert (profile.slowness.ranks, profile.slowness.place.site) == ((1,), "In[5]:4")
    assert list(profile.problems) == [1]
    assert ended.result(60).ok
    assert not four.profile(0.05).problems
