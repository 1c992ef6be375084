"""Two notebooks with a cluster each: the panel and the toolbars say which is whose."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .lab import LabNotebook, a_notebook
from .panel import Panel, find_violations
from .server import JupyterServer

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
LOAD = "%load_ext jupyter_dist"
MEET = """%%spmd
import time
while True:
    time.sleep(0.05)"""
# What the toolbar of the notebook in front says, by eye and by ear.
TOOLBAR = """() => {
  const item = window.jupyterapp.shell.currentWidget.node.querySelector('.jdp-toolbar-button');
  return item && [item.innerText.replace(/\\s+/g, ' ').trim(), item.ariaLabel];
}"""


class Desk:
    """One page with several notebooks and the panel."""

    def __init__(self, first: LabNotebook, folder: Path) -> None:
        self.first, self.page, self._folder = first, first.page, folder
        self.panel = Panel(first.page).open()

    def front(self, name: str, *sources: str) -> LabNotebook:
        """Bring a notebook to the front; one with these cells is made first."""
        path = self._folder / f"{name}.ipynb"
        if sources:
            path.write_text(json.dumps(a_notebook(*sources)), encoding="utf-8")
        notebook = LabNotebook(self.page, path)
        notebook.command("docmanager:open", path=path.name)
        self.page.wait_for_function(
            "name => window.jupyterapp.shell.currentWidget?.title.label === name", arg=path.name
        )
        return notebook

    def wait_for_shown(self, cluster: str) -> None:
        """Wait until the panel shows this cluster, and no other."""
        self.page.wait_for_function(
            """cluster => {
              const names = [...document.querySelectorAll('.jdp-panel .jd-topology .jd-name')];
              return names.length === 1 && names[0].innerText === cluster
                && names[0].checkVisibility();
            }""",
            arg=cluster,
        )

    def wait_for_toolbar(self, words: str) -> list[str]:
        """Wait until the toolbar of the notebook in front says this; give all that it says."""
        self.page.wait_for_function(f"words => ({TOOLBAR})()?.[0] === words", arg=words)
        said: list[str] = self.page.evaluate(TOOLBAR)
        return said


@pytest.fixture
def desk(panel_lab: JupyterServer, open_notebook: OpenNotebook) -> Desk:
    """A page with `one.ipynb`, whose cluster is `red`, and `two.ipynb` with `blue`."""
    start = "%dist_start -n 2 --name red"
    cells = (LOAD, start, MEET, "%dist_auto on", "%dist_auto off", "%dist_stop")
    desk = Desk(open_notebook(a_notebook(*cells), "one", ran=2, width=1500), panel_lab.notebooks)
    two = desk.front("two", LOAD, "%dist_start -n 1 --name blue", "%dist_attach red --watch")
    two.wait_for_kernel()
    for index in (0, 1):
        two.run(index)
    return desk


def test_the_panel_follows_the_notebook_in_front_until_a_cluster_is_pinned(
    desk: Desk, pictures: Path
) -> None:
    desk.wait_for_shown("blue")
    desk.panel.wait_for_text(".jdp-relation", "two.ipynb runs cells on blue.")
    desk.page.screenshot(path=pictures / "panel_follows_two.png")
    one = desk.front("one")
    desk.wait_for_shown("red")
    desk.panel.wait_for_text(".jd-stop", "Stop red…")
    one.change_theme("JupyterLab Dark")
    desk.page.screenshot(path=pictures / "panel_follows_one_dark.png")
    one.change_theme("JupyterLab Light")
    desk.panel.node.get_by_role("button", name="Pin", exact=True).click()
    desk.front("two")
    desk.panel.wait_for_text(".jdp-relation", "red is pinned. two.ipynb runs cells on blue.")
    desk.page.screenshot(path=pictures / "panel_pinned.png")
    assert find_violations(desk.page) == []
    desk.wait_for_shown("red")
    desk.panel.node.get_by_role("button", name="Unpin").click()
    desk.wait_for_shown("blue")


@pytest.mark.slow
def test_a_notebook_without_a_cluster_says_so_and_what_it_looks_on_at_is_its_cluster(
    desk: Desk, pictures: Path
) -> None:
    desk.front("three", "x = 1").wait_for_kernel()
    desk.panel.wait_for_text(".jdp-relation", "three.ipynb has no cluster.")
    listed = desk.panel.node.locator("[data-cluster]").evaluate_all(
        "rows => rows.map(row => row.dataset.cluster)"
    )
    assert listed == ["blue", "red"]
    assert desk.panel.node.locator(".jd-topology").count() == 0
    assert desk.wait_for_toolbar("")[1] == "No cluster"
    desk.page.screenshot(path=pictures / "panel_no_cluster.png")
    desk.panel.choose("red")
    desk.wait_for_shown("red")
    desk.panel.wait_for_text(".jdp-relation", "three.ipynb has no cluster. Shown is red.")
    two = desk.front("two")
    desk.wait_for_shown("blue")
    two.run(2)
    desk.wait_for_shown("red")
    desk.wait_for_toolbar("red · idle · observed")


@pytest.mark.slow
def test_the_toolbar_of_each_notebook_tells_its_cluster_and_a_click_shows_it(
    desk: Desk, pictures: Path
) -> None:
    desk.wait_for_toolbar("blue · idle")
    one = desk.front("one")
    desk.wait_for_toolbar("red · idle")
    one.run(3)
    assert desk.wait_for_toolbar("red · idle auto")[1] == "red · idle, %dist_auto is on"
    desk.page.screenshot(path=pictures / "toolbar_auto.png")
    one.run(4)
    desk.wait_for_toolbar("red · idle")
    one.start(2)
    desk.wait_for_toolbar("red · In[5] runs")
    desk.panel.choose("blue")
    desk.wait_for_shown("blue")
    desk.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    desk.page.screenshot(path=pictures / "toolbar_busy.png")
    desk.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jdp-toolbar-button").click()
    desk.wait_for_shown("red")
    desk.panel.node.locator(".jd-interrupt").click()
    one.wait()
    one.restart_kernel()
    assert "not attached" in desk.wait_for_toolbar("red · idle · not attached")[0]
