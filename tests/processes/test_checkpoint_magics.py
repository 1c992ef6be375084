"""Checkpoints as a person asks for them: in Python, at the keyboard, and in a terminal."""

from pathlib import Path

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import RankRaised
from jupyter_dist.magics import extension
from tests.facts import assert_tells
from tests.ipython_shell import shell_with_magics

from .leftovers import kill_ranks, wait_until
from .programs import dist
from .results import values

STATE = """
import numpy as np
weights = np.arange(1000, dtype=np.float32)
mine = np.full((2, 3), rank)
step = 7
maker = np.random.default_rng(rank)
"""
CHANGE = "weights = weights * 0; mine = None; step = -1; maker = 'mine'"
LOOK = "(float(weights.sum()), int(mine[0, 0]) if mine is not None else None, step)"
SUM = float(sum(range(1000)))


@pytest.fixture
def ranks(four):
    """Four idle ranks that hold variables worth saving."""
    values(four.run(STATE))
    return four


def saved_values(cluster):
    return [eval(value) for value in values(cluster.run(LOOK))]


def test_variables_come_back_as_they_were(ranks, tmp_path):
    saved = ranks.checkpoint("run", "weights mine step", directory=tmp_path)
    assert saved.world_size == 4
    assert set(saved.saved) == {"weights", "mine", "step"}
    assert Path(saved.path, "manifest.json").is_file()
    assert saved.nbytes >= 4000
    values(ranks.run(CHANGE))
    restored = ranks.restore("run", directory=tmp_path)
    assert set(restored.restored) == {"weights", "mine", "step"}
    assert restored.path == saved.path
    assert saved_values(ranks) == [(SUM, rank, 7) for rank in range(4)]


def test_only_those_that_are_named_come_back(ranks, tmp_path):
    ranks.checkpoint("run", ["weights", "mine", "step"], directory=tmp_path)
    values(ranks.run(CHANGE))
    assert ranks.restore("run", "step", directory=tmp_path).restored == ("step",)
    assert saved_values(ranks) == [(0.0, None, 7)] * 4


def test_a_user_may_call_something_else_checkpoint(ranks, tmp_path):
    values(ranks.run("checkpoint = 'mine'"))
    ranks.checkpoint("run", "step", directory=tmp_path)
    values(ranks.run(CHANGE))
    ranks.restore("run", directory=tmp_path)
    assert values(ranks.run("(step, checkpoint)")) == ["(7, 'mine')"] * 4
    values(ranks.run("checkpoint = get_ipython().own_names['checkpoint']"))


def test_without_names_those_that_are_marked_are_saved(start, tmp_path):
    cluster = start("localhost:2")
    values(cluster.run(STATE))
    with pytest.raises(RankRaised) as caught:
        cluster.checkpoint("run", directory=tmp_path)
    assert caught.value.ename == "CheckpointError"
    assert not list(tmp_path.glob("run/step-*"))
    values(cluster.run("checkpoint.mark('step', 'weights')"))
    assert set(cluster.checkpoint("run", directory=tmp_path).saved) == {"step", "weights"}


def test_what_cannot_be_saved_is_named_and_the_rest_is_saved(ranks, tmp_path):
    values(ranks.run("lines = (line for line in 'abc')"))
    saved = ranks.checkpoint("run", everything=True, directory=tmp_path)
    values(ranks.run("del lines"))
    assert {"weights", "mine", "step", "maker"} <= set(saved.saved)
    (ranks_without,) = saved.left_out["lines"].values()
    assert ranks_without == (0, 1, 2, 3)
    assert_tells(str(saved), "lines", "ranks 0-3 (")


def test_objects_that_only_pickle_can_read_are_loaded_when_asked_for(ranks, tmp_path):
    ranks.checkpoint("run", "maker step", directory=tmp_path)
    values(ranks.run(CHANGE))
    restored = ranks.restore("run", directory=tmp_path)
    assert restored.restored == ("step",)
    assert list(restored.not_restored) == ["maker"]
    assert values(ranks.run("maker")) == ["'mine'"] * 4
    assert "maker" in ranks.restore("run", directory=tmp_path, objects=True).restored
    same = "bool(maker.normal() == np.random.default_rng(rank).normal())"
    assert values(ranks.run(same)) == ["True"] * 4


def test_the_steps_of_a_name_are_listed_and_old_ones_are_removed(ranks, tmp_path):
    for _ in range(3):
        ranks.checkpoint("run", "step", directory=tmp_path, keep_last=2)
    ranks.checkpoint("other", "step weights", directory=tmp_path)
    values(ranks.run(f"_ = checkpoint.save({str(tmp_path)!r} + '/tree', [step])"))
    table = ranks.checkpoints(tmp_path)
    listed = [(row.seen.name, row.seen.step, set(row.seen.variables)) for row in table.rows]
    assert listed == [
        ("other", 0, {"step", "weights"}),
        ("run", 1, {"step"}),
        ("run", 2, {"step"}),
        ("tree", 0, set()),
    ]
    (tmp_path / "run" / "step-00000002" / "manifest.json").write_text("{}")
    table = ranks.checkpoints(tmp_path)
    (note,) = table.notes
    assert "step-00000002" in note
    assert table.rows[1].seen.step == 1


def test_saving_in_the_background_lets_cells_go_on_and_is_found_when_it_is_whole(ranks, tmp_path):
    saved = ranks.checkpoint("run", "weights step", directory=tmp_path, wait=False)
    assert (saved.path, saved.step) == ("", 0)
    values(ranks.run(CHANGE))
    wait_until(lambda: ranks.checkpoints(tmp_path).newest is not None, 10, "it is saved")
    ranks.restore("run", directory=tmp_path)
    assert saved_values(ranks) == [(SUM, None, 7)] * 4, "as it was when it was saved"


def test_an_error_is_one_line_and_shows_no_code_of_ours(ranks, tmp_path):
    with pytest.raises(RankRaised, match="CheckpointNotFound") as caught:
        ranks.restore("run", directory=tmp_path)
    assert len(caught.value.traceback) == 1
    assert str(tmp_path) in caught.value.traceback[0]


# --- at the keyboard ---


@pytest.fixture
def shell(home, tmp_path):
    """An IPython shell with our extension loaded."""
    with shell_with_magics(tmp_path / "ipython") as shell:
        yield shell
        if extension._CURRENT[shell].running is not None:
            extension._CURRENT[shell].get().stop()


def test_a_rank_is_replaced_and_all_go_back_to_where_was_saved_last(shell, tmp_path, capsys):
    def run(line):
        capsys.readouterr()
        shell.run_cell(line).raise_error()
        return capsys.readouterr().out

    place = tmp_path / "kept"
    run("%dist_start -n 3")
    run(f"%%spmd\n{STATE}")
    told = run(f"%dist_checkpoint run weights mine step --dir {place}")
    assert "[0-2] saved " in told
    assert f"as step 0: {place}/run/step-00000000" in told
    cluster = extension._CURRENT[shell].get()
    kill_ranks(cluster, 0)
    told = run("%dist_heal")
    assert "step 0 (mine, step, weights)" in told
    assert f"%dist_restore --dir {place}/run" in told
    run("%%spmd --ranks 1,2\nstep = 100")
    kill_ranks(cluster, 2)
    told = run("%dist_heal --resume")
    assert "replaced rank 2" in told
    assert "[0-2] restored " in told
    assert "rank 2 lacks maker\n" in told
    assert saved_values(cluster) == [(SUM, rank, 7) for rank in range(3)]


# --- in a terminal ---


@pytest.mark.slow
def test_a_cluster_of_another_size_goes_on_from_what_was_saved(start, tmp_path):
    cluster = start("localhost:2")
    block = "block = np.arange(3) + 3 * rank\ncheckpoint.mark('block', axis=0)"
    values(cluster.run(f"{STATE}\n{block}"))
    given = ("weights", "step", "block", "--dir", tmp_path, "--name", cluster.name)
    status, out, err = dist("checkpoint", "run", *given)
    assert status == 0, err
    assert f"as step 0: {tmp_path}/run/step-00000000" in out
    status, out, _ = dist("checkpoints", "--dir", tmp_path)
    assert (status, "block, step, weights" in out) == (0, True)
    cluster.stop()
    resume = ("--resume", tmp_path / "run", "--name", "again")
    status, out, err = dist("start", "-n", 3, *resume)
    try:
        assert status == 0, err
        assert "restored block, step, weights" in out
        again = start.attach("again")
        assert values(again.run("block.tolist()")) == ["[0, 1]", "[2, 3]", "[4, 5]"]
        assert values(again.run("(float(weights.sum()), step)")) == [f"({SUM}, 7)"] * 3
        status, _, err = dist("restore", "run", "--dir", tmp_path, "--step", 9, "--name", "again")
        assert (status, "step 9" in err) == (1, True)
    finally:
        Cluster.visit("again").stop()


def test_a_start_that_cannot_resume_leaves_its_cluster_running(start, tmp_path):
    nowhere = tmp_path / "nowhere"
    status, out, err = dist("start", "-n", 1, "--name", "bare", "--resume", nowhere)
    assert Cluster.running() == ["bare"]
    start.attach("bare").stop()
    assert status == 1
    assert "dist stop bare" in out
    assert "cluster bare" in err
    assert str(nowhere) in err
    assert not nowhere.exists()
