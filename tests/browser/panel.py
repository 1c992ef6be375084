"""The panel "Clusters" on a page of JupyterLab, and what a person does with it."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from .lab import LOOK_EACH_MS

OPEN_PANEL = "() => window.jupyterapp.commands.execute('jupyter-dist:open-panel').then(() => 0)"
HIDE_PANEL = "() => window.jupyterapp.shell.collapseLeft()"
PANEL_CHOICE = "JUPYTER_DIST_LABEXTENSION"
_ROOT = Path(__file__).parents[2]
_AXE = _ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"


class Panel:
    """The panel on a page, and what a person does with it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.node = page.locator(".jdp-panel")

    def open(self) -> "Panel":
        self.page.wait_for_function(
            """() => window.jupyterapp?.commands.hasCommand('jupyter-dist:open-panel')
              && window.jupyterapp.restored.then(() => true)"""
        )
        self.page.evaluate(OPEN_PANEL)
        self.node.wait_for(state="visible")
        return self

    def choose(self, cluster: str) -> "Panel":
        self.node.locator(f'[data-cluster="{cluster}"]').click()
        return self

    def wait_for_states(self, *states: str) -> None:
        """Wait until each rank is in one of these states."""
        self.page.wait_for_function(
            """states => {
              const seats = [...document.querySelectorAll('.jdp-panel .jd-topology [data-rank]')];
              return seats.length === 4 && seats.every(seat => states.includes(seat.dataset.state));
            }""",
            arg=states,
            polling=LOOK_EACH_MS,
        )

    def wait_for_text(self, selector: str, words: str) -> None:
        self.page.wait_for_function(
            """([selector, words]) =>
              [...document.querySelectorAll(`.jdp-panel ${selector}`)].some(
                node => node.checkVisibility() && node.innerText.includes(words))""",
            arg=[selector, words],
            polling=LOOK_EACH_MS,
        )

    def command(self, name: str) -> None:
        """Run one of our commands to its end, once it can be chosen: the list may lag behind."""
        self.page.wait_for_function("id => window.jupyterapp.commands.isEnabled(id)", arg=name)
        self.page.evaluate("id => window.jupyterapp.commands.execute(id).then(() => 0)", name)

    def text(self, selector: str) -> str:
        return str(self.node.locator(selector).first.inner_text()).strip()

    def sequence(self) -> int:
        """The number of the picture that is shown."""
        return int(self.node.locator(".jd-topology").get_attribute("data-sequence"))

    def wait_for_news(self, pictures: int = 3) -> None:
        """Wait until so many pictures have come."""
        self.page.wait_for_function(
            """wanted => Number(
              document.querySelector('.jdp-panel .jd-topology').dataset.sequence) >= wanted""",
            arg=self.sequence() + pictures,
            polling=LOOK_EACH_MS,
        )


def build_panel() -> str:
    """Build the panel from the sources as they stand; say why it cannot be, or nothing."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the panel, is not installed")
    spec = importlib.util.spec_from_file_location("hatch_build", _ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hatch_build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hatch_build)
    try:
        hatch_build.ensure_panel(_ROOT)
    except hatch_build.PanelNotBuilt as problem:
        return str(problem)
    return ""


def wait_until_the_layout_is_kept(page: Any) -> None:
    """Wait until the server has the layout of the page with the panel in front; Lab saves it late."""
    page.wait_for_function(
        """() => window.jupyterapp.serviceManager.workspaces.list().then(({ values }) =>
          values.some(workspace => JSON.stringify(workspace).includes('"current":"jupyter-dist-clusters"')))""",
    )


def find_violations(page: Any) -> list[str]:
    """Let axe-core look at the panel and its item in the status bar."""
    if not _AXE.is_file():
        pytest.skip("axe-core is missing: `make test` installs it where npm is there")
    page.evaluate(_AXE.read_text(encoding="utf-8") + "; 0")
    found = page.evaluate(
        """() => axe.run({ include: [['.jdp-panel'], ['.jdp-status']] })
          .then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(
            node => `${id}: ${node.html} ${node.failureSummary}`)))"""
    )
    return list(found)


def is_enabled(page: Any, command: str) -> bool:
    return bool(page.evaluate("id => window.jupyterapp.commands.isEnabled(id)", command))
