"""The notebooks, executed from a clean kernel, as a person would with Run All."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.facts import assert_tells
from tests.processes.leftovers import wait_until
from tests.reasons import WITHOUT_TORCH

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Execute a notebook in directories of its own; gives it with its outputs."""
    for variable in ("JUPYTER_RUNTIME_DIR", "TMPDIR", "IPYTHONDIR"):
        folder = tmp_path / variable
        folder.mkdir()
        monkeypatch.setenv(variable, str(folder))
    shutil.copytree(ROOT / "notebooks" / "data", tmp_path / "data")
    target = tmp_path / "executed.ipynb"

    def execute(path):
        run = subprocess.run(
            [sys.executable, ROOT / "notebooks" / "execute.py", path, target],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert str(target) in run.stdout, "it says where the executed notebook is"
        return nbformat.read(target, as_version=4)

    return execute


@pytest.fixture
def executed(request, execute):
    """A notebook of ours with its outputs."""
    return execute(request.param)


def outputs_of(notebook, start):
    """Everything that cells whose source begins like this have shown, as text."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue", "")
        for cell in notebook.cells
        if cell.source.startswith(start)
        for output in cell.get("outputs", [])
    )


FIRST = [path for path in NOTEBOOKS if path.name.startswith("01")]


@pytest.mark.slow
@pytest.mark.parametrize("executed", FIRST, indirect=True)
def test_the_first_notebook_shows_what_its_ranks_said_and_leaves_nothing(executed, tmp_path):
    cells = outputs_of(executed, "%%spmd")
    for words in (
        "[0-3] the same words from everyone",
        "[0-3] all_reduce: [   0. 1111. 2222. 3333.]",
        "Out[3]: 'rank 3 still has total",
        "Out[0-3]: 'all here again'",
    ):
        assert words in cells
    assert_tells(cells, "ZeroDivisionError", "rank 2")
    assert_tells(cells, "PeerFailed", "ranks 0-1,3 (3)")
    assert "3: array([8., 8., 8.])" in outputs_of(executed, "%dist_pull")
    assert "widgets" not in executed.metadata, "static outputs only"
    mimes = {
        mime
        for cell in executed.cells
        for output in cell.get("outputs", [])
        for mime in output.get("data", {})
    }
    assert mimes <= {"text/plain", "text/html"}
    assert not processes_left(tmp_path)
    assert not list((tmp_path / "TMPDIR").iterdir())


def processes_left(tmp_path):
    """Those that were started in the directories of this test."""
    mark = str(tmp_path / "TMPDIR")
    left = [p for p in psutil.process_iter() if _environment(p).get("TMPDIR") == mark]
    return [process for process in left if process.pid != psutil.Process().pid]


@pytest.mark.slow
def test_a_cluster_that_no_one_stops_ends_with_a_notebook_that_no_one_sits_before(
    execute, tmp_path
):
    sources = ("%load_ext jupyter_dist", "%dist_start -n 1 -o cluster", "cluster.vars.x = 5")
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    path = tmp_path / "no_stop.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    assert "1 rank ready" in outputs_of(execute(path), "%dist_start")
    wait_until(lambda: not processes_left(tmp_path), 15, "the cluster has ended without a stop")
    assert not list((tmp_path / "TMPDIR").iterdir())


@pytest.mark.slow
def test_what_a_background_cell_has_said_is_in_a_notebook_that_waits_for_it(execute, tmp_path):
    sources = (
        "%load_ext jupyter_dist",
        "%dist_start -n 2",
        "%%spmd --background -o job\nimport time\ntime.sleep(1)\nprint('said by', rank)\nrank * 2",
        "print('the notebook goes on')",
        "[rank.value for rank in job.wait()]",
        "%dist_stop",
    )
    path = tmp_path / "background.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    notebook = execute(path)
    assert "said by 1" in outputs_of(notebook, "%%spmd")
    assert "background" not in outputs_of(notebook, "%%spmd")
    assert outputs_of(notebook, "[rank.value") == "[0, 2]"


THIRD = [path for path in NOTEBOOKS if path.name.startswith("03")]


@pytest.mark.slow
@pytest.mark.parametrize("executed", THIRD, indirect=True)
def test_the_notebook_about_collectives_explains_its_mistakes(executed, tmp_path):
    cells = outputs_of(executed, "%%spmd")
    assert "[0-3] all_reduce: 2.5" in cells
    assert "[1]   neighbours: [0 2]" in cells or "[1] neighbours: [0 2]" in cells
    assert "Out[0-3]: 1099511627776" in cells
    # Who comes late on a busy machine is not named; of two that disagree the higher is the odd one.
    call = r"called all_reduce\(float64\[1\], sum\) #6 at In\[5\]"
    mistaken, others = rf"rank 2 {call}:4", rf"ranks? [013,-]+ {call}:7"
    assert re.search(f"{mistaken}, but {others}|{others}, but {mistaken}", cells), cells
    assert_tells(cells, "rank 1 finished", "all_reduce(float32[], avg) #4")
    assert "▶" in outputs_of(executed, "%dist_collectives")
    bench = outputs_of(executed, "%dist_bench")
    assert "all_gather" in bench
    assert "wrong" in bench
    trace = json.loads((tmp_path / "collectives.trace.json").read_text())
    assert {event["ph"] for event in trace["traceEvents"]} >= {"X", "M"}


FOURTH = [path for path in NOTEBOOKS if path.name.startswith("04")]


@pytest.mark.parametrize("executed", FOURTH, indirect=True)
def test_the_notebook_that_loses_a_rank_goes_on_with_what_the_others_had(executed):
    *_, lost, going_on = (cell for cell in executed.cells if "all_reduce(gradient" in cell.source)
    card = outputs_of(executed, lost.source)
    assert_tells(card, "rank 2 is lost: ", "SIGKILL")
    assert "%dist_heal" in card
    assert_tells(card, "PeerFailed", "ranks 0-1,3 (3)")
    assert "lost" in outputs_of(executed, "%dist_status")
    survivors = outputs_of(executed, "%%spmd --ranks 0,1,3")
    assert re.search(r"\[0-1,3\] weights \[1\.", survivors), survivors
    assert "rank 2 is lost" in outputs_of(executed, "%dist_explain")
    healed = outputs_of(executed, "%dist_heal")
    assert "replaced rank 2" in healed
    assert "rank 2 lacks weights, step" in healed
    assert "rank 2 lacks it" in outputs_of(executed, "%dist_who")
    assert "[0-3] step 99 weights" in outputs_of(executed, going_on.source)
    last = executed.cells[-2]
    assert "rank 2 lacks" not in outputs_of(executed, last.source)


FIFTH = [path for path in NOTEBOOKS if path.name.startswith("05")]


def losses_of(cells):
    """The loss after each epoch, where all ranks have said the same."""
    return {int(n): float(x) for n, x in re.findall(r"\[0-\d\] epoch (\d+): loss ([.\d]+)", cells)}


@pytest.mark.slow
@pytest.mark.parametrize("executed", FIFTH, indirect=True)
def test_the_notebook_about_jax_trains_and_goes_on_after_a_rank_was_killed(executed):
    cells = outputs_of(executed, "%%spmd")
    for words in (
        "[0-3] 4 devices, 1 of them here",
        "Out[0-3]: Array([4.], dtype=float32)",
        "(4, 3) - the sum over its rows: [[1111. 1111. 1111.]]",
    ):
        assert words in cells
    losses = losses_of(cells)
    assert list(losses) == [0, 3, 6, 9, 12, 15, 18]
    assert sorted(losses.values(), reverse=True) == list(losses.values())
    assert losses[18] < 0.3
    assert "jit(step)" in outputs_of(executed, "%dist_collectives")
    assert_tells(cells, "rank 2 is lost: ", "SIGKILL")
    assert_tells(cells, "PeerFailed", "ranks 0-1,3 (3)")
    healed = outputs_of(executed, "%dist_heal")
    assert "replaced rank 2" in healed
    assert "weights" in healed, "it belonged to what was before"
    (right,) = re.findall(r"\[0-3\] right on (\d+)%", cells)
    assert int(right) > 85


SIXTH = [path for path in NOTEBOOKS if path.name.startswith("06")]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason=WITHOUT_TORCH)
@pytest.mark.parametrize("executed", SIXTH, indirect=True)
def test_the_notebook_about_torch_trains_on_both_ranks_and_says_what_it_skips(executed):
    cells = outputs_of(executed, "%%spmd")
    assert "[0-1] all_reduce: [11.0, 11.0]" in cells
    losses = losses_of(cells)
    assert list(losses) == [4, 9, 14, 19]
    assert sorted(losses.values(), reverse=True) == list(losses.values())
    (right,) = re.findall(r"\[0-1\] right on (\d+)%", cells)
    assert int(right) > 85
    skipped = len(re.findall(r"\[0-1\] skipped: .{10,}", cells))
    assert skipped in {0, 3}, "each of the cells that need a GPU says why, or runs"


SEVENTH = [path for path in NOTEBOOKS if path.name.startswith("07")]


@pytest.mark.slow
@pytest.mark.parametrize("executed", SEVENTH, indirect=True)
def test_the_notebook_about_ipyparallel_goes_back_and_forth_between_cells_and_tasks(executed):
    assert_tells(outputs_of(executed, "%dist_ipyparallel -o"), "ranks 0-3 ", "ipyparallel")
    assert "([0, 1, 2, 3], [0, 1, 2, 3])" in outputs_of(executed, "client.ids")
    balanced = outputs_of(executed, "def error_of")
    for words in ("ranks that took part: [0, 1, 2, 3]", "largest error below 0.01: True"):
        assert words in balanced
    assert "[0, 1, 4, 9, 16, 25, 36, 49, 64, 81]" in outputs_of(executed, "from joblib")
    cells = outputs_of(executed, "%%spmd")
    assert_tells(cells, "[0-3] ", "agree: True")
    assert_tells(outputs_of(executed, "%dist_ipyparallel --s"), "controller", "ended")
    assert "Out[0-3]: array([ 1. , -2. ,  0.5])" in cells


EIGHTH = [path for path in NOTEBOOKS if path.name.startswith("08")]


@pytest.mark.slow
@pytest.mark.parametrize("executed", EIGHTH, indirect=True)
def test_the_notebook_about_checkpoints_goes_back_and_goes_on_with_fewer_ranks(executed, tmp_path):
    assert "[0-3] saved noise, step, velocity, weights" in outputs_of(executed, "%dist_checkpoint")
    listed = outputs_of(executed, "%dist_checkpoints")
    assert re.search(r"loop +30 .*\n.*loop +35 ", listed), listed
    healed = outputs_of(executed, "%dist_heal")
    assert "replaced rank 2" in healed
    assert "[0-3] restored step, velocity, weights" in healed
    assert "not restored: noise" in healed
    cells = outputs_of(executed, "%%spmd")
    # On a busy machine a rank's line comes long after those of the others, and stands alone.
    told = re.findall(r"\[([\d,-]+)\] (step 40: distance [\d.]+)", cells)
    assert len({distance for _, distance in told}) == 1, "the same steps lead to the same place"
    assert len(told) >= 2, "before the loss and after it"
    started = outputs_of(executed, "%dist_stop\n%dist_start")
    assert "[0-1] restored step, velocity, weights" in started
    assert "what ranks 2-3 had of ['noise'] was left" in started
    assert re.search(r"\[0(?:-1)?\] 20 \[-0.\d+ ", cells), cells
    (damaged,) = (c for c in executed.cells if c.source == "%dist_restore training")
    assert "CheckpointDamaged" in outputs_of(executed, damaged.source)
    assert not (tmp_path / "checkpoints").exists()


NINTH = [path for path in NOTEBOOKS if path.name.startswith("09")]


@pytest.mark.slow
@pytest.mark.parametrize("executed", NINTH, indirect=True)
def test_the_notebook_about_values_has_objects_of_ranks_and_goes_on_meanwhile(executed):
    assert "'rank': 2}" in outputs_of(executed, "res[2].value")
    assert "ranks 0,3" in outputs_of(executed, "cluster.vars.weights")
    assert outputs_of(executed, "w = ").startswith("array([[")
    assert "[10 10 10 11] {0: 0, 1: 10, 2: 20, 3: 33}" in outputs_of(executed, "cluster.vars.step")
    assert "['a', 'b']" in outputs_of(executed, "%dist_push")
    background = outputs_of(executed, "%%spmd --background -o job")
    assert "epoch 3" in background
    assert "background" not in background
    assert "2.083" in outputs_of(executed, "job.wait()")
    assert "interrupted" in outputs_of(executed, "endless")


TENTH = [path for path in NOTEBOOKS if path.name.startswith("10")]


@pytest.mark.slow
@pytest.mark.parametrize("executed", TENTH, indirect=True)
def test_the_notebook_about_profiles_names_the_slow_rank_and_its_line(executed, tmp_path):
    for cells in (outputs_of(executed, "%%spmd --profile\n"), outputs_of(executed, "%dist_prof")):
        assert_tells(cells, "rank 2 is slowest", "In[8]:8")
    assert "(2,) In[8]:8" in outputs_of(executed, "print(profile.slowness")
    assert "kept = [np.ones" in outputs_of(executed, "%%spmd --profile memory")
    trace = json.loads((tmp_path / "out.trace.json").read_text())
    assert "collectives" in {event.get("cat") for event in trace["traceEvents"]}
    assert json.loads((tmp_path / "out.speedscope.json").read_text())["profiles"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_are_stored_with_their_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    spoken = [c for c in notebook.cells if c.cell_type == "code" and c.source.startswith("%%spmd")]
    assert spoken
    assert outputs_of(notebook, "%%spmd")


def _environment(process):
    try:
        return process.environ()
    except psutil.Error:
        return {}
