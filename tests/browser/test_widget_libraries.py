"""What libraries of widgets do on a rank, in a real JupyterLab: see docs/how_to/widgets.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .lab import LabNotebook, a_notebook

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
ANYWIDGET = """%%spmd --ranks 1
import anywidget, traitlets
class Counter(anywidget.AnyWidget):
    _esm = '''
    export default { render({ model, el }) {
      const button = document.createElement("button");
      button.className = "a-counter";
      const draw = () => { button.textContent = "count " + model.get("count"); };
      button.onclick = () => { model.set("count", model.get("count") + 1); model.save_changes(); };
      model.on("change:count", draw);
      model.on("msg:custom", (said, buffers) => { el.append(said.text + buffers[0].byteLength); });
      draw();
      el.append(button);
    } };'''
    count = traitlets.Int(0).tag(sync=True)
counter = Counter(count=5)
def tell(change):
    counter.send({"text": "bytes "}, [bytes(17)])
counter.observe(tell, "count")
counter"""
PLOTLY = """%%spmd --ranks 1
import plotly.graph_objects as go
figure = go.FigureWidget(go.Scatter(x=[1, 2, 3], y=[3, 1, 2]))
changes = []
figure.layout.on_change(lambda layout, mode: changes.append(mode), "dragmode")
figure"""
IPYMPL = """%%spmd --ranks 1
%matplotlib widget
import matplotlib.pyplot as plt
clicks = []
figure, axes = plt.subplots()
axes.plot([1, 2, 3])
def on_click(event):
    clicks.append(event.button.name)
    axes.set_title("clicked")
    figure.canvas.draw_idle()
figure.canvas.mpl_connect("button_press_event", on_click)
plt.show()"""
RETITLE = "%%spmd --ranks 1\naxes.set_title('from the rank'); figure.canvas.draw_idle()"
# What the figure shows, as a page has it.
DRAWN = "() => document.querySelector('.jupyter-matplotlib-canvas-div canvas').toDataURL()"
BOKEH_IN_THE_PAGE = """from bokeh.io import output_notebook
from bokeh.resources import INLINE
output_notebook(INLINE)"""
BOKEH = """%%spmd --ranks 1
from bokeh.models import Slider
from jupyter_bokeh import BokehModel
changes = []
slider = Slider(start=0, end=10, value=1, step=1, title="lr")
slider.on_change("value", lambda name, old, new: changes.append(new))
BokehModel(slider)"""
SHOWN = 2
"""The cell that displays the widget."""


@pytest.fixture
def on_a_rank(open_notebook: OpenNotebook) -> Callable[..., Any]:
    """Run a cell that displays a widget on rank 1 of 2; give the notebook, with more cells to run."""

    def display(library: str, cell: str, *more: str, page: str = "") -> LabNotebook:
        pytest.importorskip(library)
        cells = (f"%load_ext jupyter_dist\n{page}", "%dist_start -n 2", cell, *more)
        return open_notebook(a_notebook(*cells), library, ran=SHOWN + 1)

    return display


def part(notebook: LabNotebook, selector: str) -> Any:
    return notebook.page.locator(".jp-Notebook .jp-Cell").nth(SHOWN).locator(selector).first


@pytest.mark.slow
def test_an_anywidget_of_a_rank_has_its_script_its_values_and_binary_messages(
    on_a_rank: Any,
) -> None:
    notebook = on_a_rank("anywidget", ANYWIDGET, "%%spmd --ranks 1\ncounter.count += 10")
    part(notebook, ".a-counter").click()
    notebook.wait_for_text(SHOWN, "bytes 17")
    notebook.run(3)
    notebook.wait_for_text(SHOWN, "count 16")


@pytest.mark.slow
def test_a_plotly_figure_of_a_rank_is_changed_from_both_sides(
    on_a_rank: Any, pictures: Path
) -> None:
    retitle = "%%spmd --ranks 1\nfigure.update_layout(title='from the rank', width=500)"
    notebook = on_a_rank("plotly", PLOTLY, retitle, "%%spmd --ranks 1\nprint(changes)")
    # On a busy machine plotly may draw a figure without its data, and hear nothing more of it: on
    # a plain kernel in 2 of 18 runs beside five others. A person runs the cell again.
    for _ in range(5):
        part(notebook, ".modebar-btn[data-val=pan]").wait_for(state="attached")
        if part(notebook, ".scatterlayer .trace").count():
            break
        notebook.run(SHOWN)
    part(notebook, ".modebar-btn[data-val=pan]").dispatch_event("click")
    notebook.run(3)
    notebook.wait_for_text(SHOWN, "from the rank")
    notebook.page.screenshot(path=pictures / "plotly_of_a_rank.png")
    assert "['pan']" in notebook.run(4)


@pytest.mark.slow
def test_an_ipympl_figure_takes_the_mouse_and_leaves_a_picture_when_its_rank_has_ended(
    on_a_rank: Any, pictures: Path
) -> None:
    notebook = on_a_rank("ipympl", IPYMPL, "%%spmd --ranks 1\nprint(clicks)", RETITLE, "%dist_stop")
    canvas = part(notebook, ".jupyter-matplotlib-canvas-div canvas")
    before = canvas.evaluate(DRAWN)
    canvas.click(position={"x": 150, "y": 150}, force=True)
    # A click may take another way through the kernel than a cell that is run right after it.
    notebook.page.wait_for_function(f"before => ({DRAWN})() !== before", arg=before)
    assert "['LEFT']" in notebook.run(3)
    before = canvas.evaluate(DRAWN)
    notebook.run(4)
    notebook.page.wait_for_function(f"before => ({DRAWN})() !== before", arg=before)
    notebook.page.screenshot(path=pictures / "ipympl_of_a_rank.png")
    notebook.run(5)
    part(notebook, "img[src^='data:image/png']").wait_for()
    notebook.page.screenshot(path=pictures / "ipympl_of_a_rank_that_has_ended.png")


def test_a_bokeh_model_of_a_rank_calls_back(on_a_rank: Any, pictures: Path) -> None:
    notebook = on_a_rank(
        "jupyter_bokeh", BOKEH, "%%spmd --ranks 1\nprint(changes)", page=BOKEH_IN_THE_PAGE
    )
    part(notebook, ".noUi-handle").press("ArrowRight")
    notebook.page.screenshot(path=pictures / "bokeh_of_a_rank.png")
    assert "[2, 2]" in notebook.run(3)  # it calls back twice on a kernel, too
