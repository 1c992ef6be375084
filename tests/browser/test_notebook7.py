"""The topology widget in Jupyter Notebook 7: the same renderer as in JupyterLab."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import opening_notebooks
from .lab import (
    FOLLOW_STATES,
    WIDGET,
    LabNotebook,
    a_meeting,
    a_notebook,
    wait_until_all_are,
    wait_until_all_wait_for_rank_0,
)
from .server import JupyterServer

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
LOAD, START, STOP = "%load_ext jupyter_dist", "%dist_start -n 4", "%dist_stop"
STUCK = "%%spmd\nprint('at work')\nwhile True: pass"
# What Notebook 7 calls itself; JupyterLab's page says something else.
APPLICATION = "window.jupyterapp.name"


@pytest.fixture(scope="module")
def notebook7(
    chromium_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JupyterServer]:
    """One `jupyter notebook` for the module; at its end no process of it may be left."""
    pytest.importorskip("notebook", reason="Jupyter Notebook 7 is not installed")
    server = JupyterServer(tmp_path_factory.mktemp("notebook7"), "notebook")
    yield server
    assert server.stop() == []


@pytest.fixture
def open_in_notebook7(notebook7: JupyterServer, lab_browser: Any) -> Iterator[OpenNotebook]:
    """Open notebooks in Jupyter Notebook 7; their kernels and clusters end with the test."""
    with opening_notebooks(notebook7, lab_browser) as open_notebook:
        yield open_notebook


def test_the_widget_lives_in_notebook_7_from_the_start_to_the_snapshot(
    open_in_notebook7: OpenNotebook, pictures: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    notebook = open_in_notebook7(
        a_notebook(LOAD, START, a_meeting(gate), STUCK, STOP), "seven", ran=2
    )
    page = notebook.page
    assert page.evaluate(APPLICATION) == "Jupyter Notebook"
    wait_until_all_are("idle", page)

    page.evaluate(FOLLOW_STATES)
    notebook.start(2)
    wait_until_all_wait_for_rank_0(page)
    gate.touch()
    notebook.wait()
    wait_until_all_are("idle", page)
    seen = page.evaluate("window.seen")
    assert "collective" in seen["3"]
    assert [seen[rank][-1] for rank in sorted(seen)] == ["idle"] * 4

    notebook.start(3)
    notebook.wait_for_text(3, "[0-3] at work")
    wait_until_all_are("busy", page)
    page.screenshot(path=pictures / "notebook7_at_work.png")
    page.click(f"{WIDGET} .jd-interrupt")
    notebook.wait_for_text(1, "ranks 0-3 signalled")
    notebook.wait()
    assert "CellInterrupted: ranks 0-3 interrupted" in notebook.text(3)

    notebook.run(4)
    notebook.wait_for_text(1, "not live")
    assert page.locator(WIDGET).count() == 0
    page.screenshot(path=pictures / "notebook7_stopped.png")
    saved = notebook.save()
    assert "application/vnd.jupyter.widget-view+json" not in json.dumps(saved)
