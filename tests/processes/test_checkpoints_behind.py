"""What is saved behind cells, when a rank leaves it or the cluster ends meanwhile."""

import concurrent.futures

import pytest

from jupyter_dist.checkpoint.storage.directory import latest
from tests.facts import assert_tells

from .results import values

GIVE_UP = """
from jupyter_dist.checkpoint.save.background import Background
start = Background.start
def interrupted(*_):
    raise KeyboardInterrupt
if rank == 1:
    Background.start = interrupted
"""
"""Rank 1 is interrupted when all have agreed and nothing runs behind its cell yet."""
GO_ON = "Background.start = start"


def test_a_rank_interrupted_when_all_have_agreed_is_not_waited_for(start, tmp_path):
    cluster, place = start("localhost:3"), tmp_path / "run"
    values(cluster.run(GIVE_UP))
    result = cluster.run(f"saving = checkpoint.save({str(place)!r}, rank, wait=False)")
    assert [rank.status for rank in result] == ["ok", "interrupted", "ok"]
    result = cluster.run("saving.wait(20)", ranks=[0, 2])
    for rank in result:
        assert rank.error.ename == "CheckpointFailed"
        assert_tells(rank.error.evalue, "rank 1: step 0 ", "(KeyboardInterrupt)")
    values(cluster.run(GO_ON))
    values(cluster.run(f"checkpoint.save({str(place)!r}, rank, wait=False).wait(20)"))
    assert latest(place).step == 0
    assert [path.name for path in place.iterdir()] == ["step-00000000"]


HOLD = """
import os, time
from jupyter_dist.checkpoint.format.part_file import PartWriter
finish = PartWriter.finish
def held(self):
    while not os.path.exists(GO):
        time.sleep(0.02)
    END
    return finish(self)
if rank == 1:
    PartWriter.finish = held
"""
"""Rank 1 does not end to write before a file is there."""


def hold(cluster, go, end="pass"):
    values(cluster.run(HOLD.replace("GO", repr(str(go))).replace("END", end)))
    values(cluster.run("import numpy as np; own = np.full(3, rank)"))


@pytest.mark.slow
def test_a_cluster_that_is_stopped_waits_for_what_is_saved_behind_cells(
    start, tmp_path, in_background
):
    cluster, go = start("localhost:2"), tmp_path / "go"
    hold(cluster, go)
    cluster.checkpoint("run", "own", directory=tmp_path, wait=False)
    stopping = in_background(cluster.stop)
    with pytest.raises(concurrent.futures.TimeoutError):
        stopping.result(1)
    assert latest(tmp_path / "run") is None
    go.touch()
    stopping.result(20)
    assert latest(tmp_path / "run").step == 0


def test_a_cluster_that_is_stopped_tells_what_was_not_saved_behind_cells(start, tmp_path):
    cluster, go = start("localhost:2"), tmp_path / "go"
    go.touch()
    hold(cluster, go, "1 / 0")
    cluster.checkpoint("run", "own", directory=tmp_path, wait=False)
    with pytest.warns(UserWarning, match="rank 1: ZeroDivisionError: "):
        cluster.stop()
    assert latest(tmp_path / "run") is None
