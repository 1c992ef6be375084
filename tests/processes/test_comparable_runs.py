"""Two runs of the same cells, on two clusters whose ranks come in another order each time."""

import nbformat
import pytest
from nbclient import NotebookClient

from jupyter_dist.errors import RankRaised
from jupyter_dist.magics.spmd import find_failure
from jupyter_dist.views.cell.cell_output import CellOutputView
from tests.kernels import with_files
from tests.matrix import only

from .corpus import cells
from .pages import Page

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")


NOTEBOOK = (
    "%load_ext jupyter_dist",
    "%dist_start -n 2 --name compared",
    "%dist_auto on",
    "print('rank', rank)",
    "%dist_auto off",
    "%%spmd\nimport os, signal\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ncomm.barrier()",
    "%dist_heal",
    "%dist_axes data=2",
    "%dist_stop",
)
"""Each cell but the one that loses a rank, whose card tells of its memory."""
CARD = 5


def saved_outputs(cluster, corpus):
    """Return what a notebook saves of these cells, by their names."""
    saved = {}
    for number, (name, code) in enumerate(corpus, 1):
        page = Page()
        view = CellOutputView(world_size=cluster.world_size, display=page)
        result = cluster.run(code, label=number, watcher=view)
        failure = find_failure(result)
        view.finish(result, failure.rank if isinstance(failure, RankRaised) else None)
        assert page.text, f"{name} says something"
        saved[name] = page.bundle
    return saved


@pytest.mark.parametrize("variants", only([1], [1, 8]))
def test_two_runs_of_the_same_cells_are_saved_alike(start, variants):
    corpus = cells(variants)
    with start("localhost:4") as first:
        before = saved_outputs(first, corpus)
    with start("localhost:4") as second:
        after = saved_outputs(second, corpus)
    different = {
        name: (before[name], after[name]) for name in before if before[name] != after[name]
    }
    assert not different
    assert len({code for _, code in corpus}) == len(before) == len(corpus)


@pytest.fixture
def saved_notebook(tmp_path, monkeypatch):
    """Give a function that runs the notebook in a kernel of its own, and returns what is saved."""
    for variable in ("JUPYTER_RUNTIME_DIR", "TMPDIR", "IPYTHONDIR"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))

    def run():
        cells = [nbformat.v4.new_code_cell(code) for code in NOTEBOOK]
        cells[CARD].metadata["tags"] = ["raises-exception"]
        notebook = nbformat.v4.new_notebook(cells=cells)
        NotebookClient(notebook, config=with_files(), timeout=60).execute()
        return [
            [
                {key: each.get(key) for key in ("output_type", "text")} | shown(each)
                for each in cell.outputs
            ]
            for cell in notebook.cells
        ]

    def shown(output):
        """What a page without the widget shows: its model has an id of its own each time."""
        texts = output.get("data", {})
        return {mime: texts[mime] for mime in sorted(texts) if mime.startswith("text/")}

    return run


@pytest.mark.slow
def test_two_runs_of_a_notebook_are_saved_alike_from_start_to_stop(saved_notebook):
    before, after = saved_notebook(), saved_notebook()
    for number, code in enumerate(NOTEBOOK):
        if number != CARD:
            assert before[number] == after[number], code
    ready, picture = before[1]
    assert ready["text/plain"] == "cluster compared: 2 ranks ready"
    assert "● started" in picture["text/plain"]
