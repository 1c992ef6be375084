"""Memory and disks that give out: what is said, and that the others go on."""

import contextlib
import errno
import os
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import HealFailed, StartFailed
from tests.facts import assert_tells
from tests.matrix import only
from tests.processes.leftovers import Home, engines_of
from tests.small_disk import mounted_disk

from .conftest import describe
from .faults import ARM
from .promises import (
    assert_goes_on,
    assert_is_lost,
    assert_nothing_else_lives,
    assert_survivors_intact,
    remember,
)

MIB = 1 << 20
CONTROLLERS = {
    Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes",
    Path("/sys/fs/cgroup"): "memory.max",
}
FILL = "kept_big = np.ones(512 << 20, np.uint8)"


# --- memory ---


@pytest.fixture
def cage():
    """A control group in which processes get 96 MiB more than they have."""
    if os.geteuid() != 0:
        pytest.skip("making a control group needs root")
    for root, limit in CONTROLLERS.items():
        group = root / f"jupyter-dist-faults-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).exists():
            yield partial(put_into, group, limit)
            group.rmdir()
            return
        group.rmdir()
    pytest.skip("no control group for memory can be made in /sys/fs/cgroup here")


def put_into(group, limit, process):
    (group / limit).write_text(str(process.memory_info().rss + 96 * MIB))
    (group / "cgroup.procs").write_text(str(process.pid))


@pytest.mark.parametrize("moment", ["computing", "in_a_collective"])
def test_a_rank_that_the_kernel_kills_for_its_memory_is_told_as_such(
    moment, start, home, cage, tmp_path
):
    cluster = start(None, spec=describe("localhost"))
    assert cluster.run(ARM, is_setup=True).ok
    kept = remember(cluster, moment)
    victim = engines_of(cluster)[1]
    cage(victim)
    after = "comm.barrier()" if moment == "in_a_collective" else "'done'"
    result = cluster.run(f"if rank == 1: {FILL}\n{after}", timeout_s=90)
    others = "peer_failed" if moment == "in_a_collective" else "ok"
    assert [rank.status for rank in result] == [others, "lost"]
    crash = result[1].crash
    assert crash.signal == signal.SIGKILL
    assert crash.oom_kills or crash.kernel, crash
    assert_tells(str(result[1].error), "SIGKILL: out", "memory")
    assert_survivors_intact(cluster, kept, {victim.pid})
    assert_goes_on(cluster)
    assert_nothing_else_lives(cluster, home)


# --- disks ---


@pytest.fixture
def small_disk(tmp_path, monkeypatch):
    """A home whose temporary directory holds 2 MB, and a function that fills it."""
    with mounted_disk(tmp_path / "disk", "2m") as disk:
        home = Home(tmp_path, disk / "tmp")
        home.enter(monkeypatch)
        home.ballast = disk / "ballast"
        yield home
        home.assert_nothing_left(within_s=3)


def fill(disk):
    """Leave no byte free."""
    with open(disk.ballast, "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            return


@contextlib.contextmanager
def suppress_full(error_type):
    """Accept a failure that gives the full disk as its reason."""
    try:
        yield
    except error_type as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise


def is_all_there(text):
    """Tell whether 2000 numbered lines have come, even if in several streams' order."""
    return text == "".join(f"{k} {'x' * 90}\n" for k in range(2000))


@pytest.mark.parametrize(
    "moment",
    only(["printing", "pushing"], ["computing", "printing", "pushing", "healing", "stopping"]),
)
def test_a_full_disk_is_no_reason_to_hang_or_to_lie(moment, small_disk):
    with Cluster.start(spec=describe("localhost"), timeout_s=90) as cluster:
        small_disk.remember(cluster)
        assert cluster.run(ARM, is_setup=True).ok
        kept = remember(cluster, moment)
        gone = set()
        fill(small_disk)
        if moment == "computing":
            result = cluster.run("int(comm.all_reduce(rank))", timeout_s=90)
            assert [rank.value_repr for rank in result] == ["1", "1"]
        elif moment == "printing":
            result = cluster.run("for k in range(2000): print(k, 'x' * 90)", timeout_s=90)
            assert all(is_all_there(rank.stdout) for rank in result), result
        elif moment == "pushing":
            cluster.push({"pushed": np.arange(1 << 20)})
            assert [r.value_repr for r in cluster.run("int(pushed[-1])")] == [
                str((1 << 20) - 1)
            ] * 2
        elif moment == "healing":
            victim = engines_of(cluster)[1]
            gone.add(victim.pid)
            victim.kill()
            assert_is_lost(cluster, 1, "SIGKILL", 5)
            with suppress_full(HealFailed):
                cluster.heal()
            assert_survivors_intact(cluster, kept, gone)
        if moment != "stopping":
            small_disk.ballast.unlink()
            assert_survivors_intact(cluster, kept, gone)
            assert_goes_on(cluster)
    if moment == "stopping":
        small_disk.ballast.unlink()


def test_a_cluster_that_starts_on_a_full_disk_fails_with_the_reason_or_runs(small_disk):
    fill(small_disk)
    with (
        suppress_full(StartFailed),
        Cluster.start(spec=describe("localhost"), timeout_s=90) as cluster,
    ):
        small_disk.remember(cluster)
        assert cluster.run("1").ok
    small_disk.ballast.unlink()
