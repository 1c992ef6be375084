"""What cells have said, as the notebooks of this repository keep it: axe finds nothing in it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import only

from .test_topology_looks import AXE

pytestmark = pytest.mark.browser

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
THEMES = Path(sys.prefix) / "share" / "jupyter" / "lab" / "themes" / "@jupyterlab"
PAGE = """<!doctype html><html lang="en"><title>saved outputs</title><style>{theme}
  body {{ background: var(--jp-layout-color0); color: var(--jp-content-font-color1); font: 14px sans-serif; }}
  pre {{ color: inherit; font-size: 13px; }}</style><main>{outputs}</main></html>"""


def saved_outputs() -> list[str]:
    """The HTML of outputs of all notebooks; of those that differ in their words only, one."""
    cells = [
        cell
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]
    found = [
        output.get("data", {}).get("text/html", ())
        for cell in cells
        for output in cell.get("outputs", ())
    ]
    outputs = ["".join(lines) for lines in found if lines]
    return list({re.sub(r">[^<]+<", "><", output): output for output in outputs}.values())


@pytest.mark.slow
@pytest.mark.parametrize("theme", only(["light"], ["light", "dark"], at_night=["dark"]))
def test_saved_outputs_are_fit_for_everyone(chromium: Any, theme: str) -> None:
    style = THEMES / f"theme-{theme}-extension" / "index.css"
    if not AXE.exists() or not style.is_file():
        pytest.skip("no axe-core (`npm ci` in labextension), or no JupyterLab")
    outputs = saved_outputs()
    assert len(outputs) > 20
    page = chromium.new_page()
    page.set_content(
        PAGE.format(theme=style.read_text(encoding="utf-8"), outputs="<hr>".join(outputs))
    )
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        """async () => (await axe.run('main', { resultTypes: ['violations'] })).violations.flatMap(
          ({ id, nodes }) => nodes.map(node => `${id}: ${node.html} ${node.failureSummary}`))"""
    )
    page.close()
    assert found == []
