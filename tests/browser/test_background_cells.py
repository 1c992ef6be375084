"""A cell in the background in a real JupyterLab: it lives in its own place, and the notebook goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .lab import LabNotebook, a_notebook

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
JOB = """%%spmd --background -o job
import time
for step in range(8):
    print("step", step, flush=True)
    time.sleep(0.5)
rank * 2"""


@pytest.mark.slow
def test_a_background_cell_is_live_in_its_place_while_the_notebook_goes_on(
    open_notebook: OpenNotebook, pictures: Path
) -> None:
    notebook = open_notebook(
        a_notebook(
            "%load_ext jupyter_dist",
            "%dist_start -n 2",
            JOB,
            "6 * 7",
            "%%spmd\nrank + 100",
            "[rank.value for rank in job.wait()]",
            "%%spmd --background -o other\nimport time\ntime.sleep(60)",
            "other.cancel()",
            "%dist_stop",
        ),
        "background",
    )
    for cell in (0, 1, 2):
        notebook.run(cell)
    notebook.wait_for_text(2, "step 1")
    assert "42" in notebook.run(3)
    assert "Out" not in notebook.text(2), "it still runs"
    notebook.page.screenshot(path=pictures / "background_cell.png")
    notebook.start(4)
    notebook.wait_for_text(4, "100")
    assert "step 7" in notebook.text(2)
    assert "[0, 2]" in notebook.run(5)
    assert "background" not in notebook.text(2)
    notebook.page.screenshot(path=pictures / "background_cell_done.png")
    notebook.run(6)
    notebook.run(7)
    notebook.wait_for_text(6, "KeyboardInterrupt")
    notebook.run(8)
