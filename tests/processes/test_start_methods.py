"""Ranks that are spawned, as asked for; and systems that lack what Linux has, as pretended."""

from pathlib import Path

import pytest

from tests.pretended.systems import variables_of

from .leftovers import command_of, engines_of, is_alive, pids_of, wait_until, zygotes_of
from .programs import run_program, run_script
from .results import values

KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
SUM = "import numpy as np\nfloat(comm.all_reduce(np.ones(3))[0])"


@pytest.fixture
def macos(monkeypatch, tmp_path):
    """Coordinators, agents and ranks that start from now on have what macOS has, and no more."""
    for name, value in variables_of("darwin", tmp_path).items():
        monkeypatch.setenv(name, value)


def all_are_spawned(cluster):
    return all("jupyter_dist.engine" in command_of(engine) for engine in engines_of(cluster))


def assert_cells_run_and_lost_ranks_are_replaced(cluster):
    ranks = pids_of(cluster)
    assert all_are_spawned(cluster)
    assert values(cluster.run(SUM)) == ["2.0"] * 2
    ended = cluster.run(f"if rank == 1:\n    {KILL}\ncomm.barrier()")
    assert [rank.status for rank in ended] == ["peer_failed", "lost"]
    cluster.heal()
    assert values(cluster.run(SUM)) == ["2.0"] * 2
    assert pids_of(cluster)[0] == ranks[0], "who lives keeps its process"
    assert all_are_spawned(cluster)


def assert_no_rank_outlives_the_zygote(cluster):
    [zygote], ranks = zygotes_of(cluster), engines_of(cluster)
    zygote.kill()
    wait_until(lambda: not any(map(is_alive, ranks)), 5, "the ranks end")


def test_spawned_ranks_are_replaced_and_end_with_the_process_that_has_started_them(start):
    cluster = start("localhost:2", start_method="spawn")
    assert_cells_run_and_lost_ranks_are_replaced(cluster)
    assert_no_rank_outlives_the_zygote(cluster)


def test_a_cluster_does_without_what_macos_lacks(start, macos):
    cluster = start("localhost:2")
    assert_cells_run_and_lost_ranks_are_replaced(cluster)
    cluster.push({"large": bytes(1 << 22)})
    assert [len(got) for got in cluster.pull("large").values()] == [1 << 22] * 2
    cluster.run("import subprocess\n_ = subprocess.Popen(['sleep', '600'])")
    assert_no_rank_outlives_the_zygote(cluster)


@pytest.mark.slow
def test_a_client_does_without_what_windows_lacks(start, macos, monkeypatch, tmp_path):
    cluster = start("localhost:2", name="near", keep_s=60)  # which sees its machine as Windows does
    cluster.detach()
    for name, value in variables_of("win32", tmp_path).items():
        monkeypatch.setenv(name, value)
    said = run_script(Path(__file__).with_name("client_rooms.py").read_text(), "near")
    assert said.splitlines() == ["['1', '1']", str([1 << 22] * 2)]
    for words in ("list --json", "status near --json", "stop near"):
        done = run_program("-m", "jupyter_dist.cli", *words.split())
        assert (done.returncode, done.stderr) == (0, "")
        assert "near" in done.stdout
