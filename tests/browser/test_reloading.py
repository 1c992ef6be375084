"""The page is loaded again in the middle of a cell: what comes back at once, and what at its end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .lab import WIDGET, LabNotebook, a_notebook, wait_until_all_are

pytestmark = pytest.mark.browser

LOAD, START = "%load_ext jupyter_dist", "%dist_start -n 4"
# A kernel that is busy does not say so to a new page; it is silent.
NOTEBOOK_IS_BACK = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  return panel?.content?.widgets?.length === 5 && panel.sessionContext?.session?.kernel
    && !document.getElementById('jupyterlab-splash');
}"""


def test_after_a_reload_in_mid_cell_nothing_of_the_cluster_or_its_output_is_lost(
    open_notebook: Callable[..., LabNotebook], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    cell = f"""%%spmd
import os, time
print("before reload")
while not os.path.exists({str(gate)!r}):
    time.sleep(0.05)
print("after reload")"""
    notebook = open_notebook(
        a_notebook(LOAD, START, cell, "%dist_output", "%%spmd\nrank"), "reloaded_in_mid_cell", ran=2
    )
    page = notebook.page
    wait_until_all_are("idle", page)
    notebook.start(2)
    notebook.wait_for_text(2, "[0-3] before reload")
    notebook.save()
    page.reload()
    page.wait_for_function(NOTEBOOK_IS_BACK)
    # Jupyter gives a page its widgets when the kernel answers, which a busy one does not.
    assert page.locator(f"{WIDGET} [data-rank]").count() == 0

    gate.touch()
    notebook.wait_for_kernel()
    wait_until_all_are("idle", page)
    again = notebook.run(3)
    assert "[0-3] before reload" in again
    assert "[0-3] after reload" in again
    assert "[3] 3" in notebook.run(4)
