"""Widgets of ranks in a real JupyterLab: they live as long as their ranks, and say when not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .lab import LabNotebook, a_notebook

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
SLIDER = """%%spmd
import ipywidgets as widgets
slider = widgets.IntSlider(value=3, description="lr")
for turn in (1, 0):
    if rank == turn: display(slider)
    comm.barrier()"""
BUTTON = """%%spmd --ranks 1
pressed = []
def on_click(_):
    pressed.append(1)
    print("pressed", len(pressed))
    if len(pressed) == 2:
        1 / 0
button = widgets.Button(description="step")
button.on_click(on_click)
display(button)"""
INTERACT = """%%spmd --ranks 0
@widgets.interact(x=(0, 10))
def square(x=3):
    print("square", x * x)"""
VALUES = "%%spmd\nprint(slider.value, globals().get('pressed'))"
BUSY = "%%spmd --ranks 1\nimport os, time\nprint('begun')\nwhile not os.path.exists({!r}): time.sleep(0.01)"
KILL = "%%spmd --ranks 1\nimport os\nos.kill(os.getpid(), 9)"
HANDLE = ".noUi-handle"


def part(notebook: LabNotebook, cell: int, selector: str, number: int = 0) -> Any:
    """Give an element of a cell's output, as a page's user finds it."""
    outputs = notebook.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea")
    return outputs.locator(selector).nth(number)


def test_widgets_of_ranks_are_live_in_the_page_until_their_rank_ends(
    open_notebook: OpenNotebook, pictures: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "go_on"
    cells = ["%load_ext jupyter_dist", "%dist_start -n 2", SLIDER, BUTTON, INTERACT, VALUES]
    cells += [BUSY.format(str(gate)), VALUES, KILL, "%dist_stop"]
    notebook = open_notebook(a_notebook(*cells), "widgets_of_ranks", ran=5, height=1600)
    slider, button, interact, values, busy, later, kill, stop = range(2, 10)

    # Widgets stand by rank; each key is an event of its own.
    headings, of_rank_1 = notebook.text(slider), 1
    assert headings.index("rank 0") < headings.index("rank 1")
    for _ in range(4):
        part(notebook, slider, HANDLE, of_rank_1).press("ArrowRight")
    part(notebook, button, "button").click()
    notebook.wait_for_text(button, "pressed 1")
    part(notebook, button, "button").click()
    notebook.wait_for_text(button, "ZeroDivisionError")
    assert "rank 1, callbacks" in notebook.text(button)
    part(notebook, interact, HANDLE).press("ArrowRight")
    notebook.wait_for_text(interact, "square 16")
    said = notebook.run(values)
    assert "3 None" in said
    assert "7 [1, 1]" in said
    notebook.page.screenshot(path=pictures / "widgets_of_ranks.png")

    # A busy rank: what is done meanwhile waits, visibly and in order.
    notebook.start(busy)
    notebook.wait_for_text(busy, "begun")  # a widget's event may overtake a cell
    part(notebook, slider, HANDLE, of_rank_1).press("ArrowRight")
    notebook.wait_for_text(slider, "rank 1 is busy: 1 event waits")
    notebook.page.screenshot(path=pictures / "widget_of_a_busy_rank.png")
    gate.touch()
    notebook.wait()
    notebook.page.wait_for_function("() => !document.body.innerText.includes('is busy')")
    assert "8 [1, 1]" in notebook.run(later)

    notebook.run(kill)
    notebook.wait_for_text(slider, "rank 1 is lost")
    notebook.wait_for_text(button, "rank 1 is lost")
    notebook.page.screenshot(path=pictures / "widgets_of_a_lost_rank.png")
    assert part(notebook, slider, HANDLE).count() == 1
    assert part(notebook, button, "button").count() == 0
    notebook.run(stop)
    notebook.wait_for_text(interact, "the cluster has ended")
    assert part(notebook, interact, HANDLE).count() == 0
    assert "widget-view" not in str(notebook.save()["cells"][slider]["outputs"])
