"""JupyterLab's own debugger drives a rank, while the kernel is busy with the cell."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .lab import LabNotebook, a_notebook
from .lab_debugger import CELL, LabDebugger
from .panel import Panel
from .server import JupyterServer

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
SUM = "140.0"
# Has the kernel's debugger not answered that it has stopped until it is let go.
HOLD_DISCONNECT = """() => {
  window.held = [];
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const request = kernel.requestDebug.bind(kernel);
  kernel.requestDebug = (content, ...others) => {
    const future = request(content, ...others);
    if (content.command !== 'disconnect') return future;
    const isLetGo = new Promise(resolve => window.held.push(resolve));
    const done = future.done;
    Object.defineProperty(future, 'done', { value: isLetGo.then(() => done) });
    return future;
  };
}"""
BUSY = """() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"""


def test_labs_debugger_steps_a_rank_through_a_cell_while_the_kernel_is_busy(
    panel_lab: JupyterServer, open_notebook: OpenNotebook, pictures: Path
) -> None:
    assert panel_lab.has_panel
    cells = ["%load_ext jupyter_dist", "%dist_start -n 4 --name demo", CELL, "%dist_stop"]
    notebook = open_notebook(a_notebook(*cells), "rank_debugger", ran=2, width=1500, height=900)
    page, debugger = notebook.page, LabDebugger(notebook.page, 2)
    panel = Panel(page).open()
    panel.wait_for_states("idle")
    debugger.choose("rank 2")
    debugger.toggle_breakpoint(7)
    debugger.breakpoint.wait_for()

    notebook.start(2)
    debugger.wait_for_line("mine = scale")
    assert page.evaluate(BUSY) == "busy"
    debugger.press("stepIn")
    debugger.wait_for_line("scaled = weights * factor")
    debugger.press("next")
    debugger.wait_for_line("return scaled")
    debugger.wait_for_variable("factor", "3")
    debugger.wait_for_variable("scaled", "ndarray")
    assert page.locator(".jp-DebuggerCallstack").inner_text().count("scale") == 1
    panel.wait_for_text(".jd-note", "rank 2, which is in the debugger")
    page.screenshot(path=pictures / "rank_debugger.png")
    debugger.press("stepOut")
    debugger.press("continue")
    notebook.wait_for_text(2, SUM)
    notebook.wait()

    debugger.choose("none")
    assert SUM in notebook.run(2)
    debugger.choose("rank 1")
    debugger.breakpoint.wait_for()
    notebook.start(2)
    debugger.wait_for_line("mine = scale")
    debugger.press("terminate")
    debugger.wait_for_choice("none")
    notebook.wait()
    assert SUM in notebook.text(2)

    debugger.choose("rank 3")
    notebook.run(3)
    debugger.wait_for_choice("none")
    page.get_by_text("Rank 3 of demo is not debugged any longer").first.wait_for()


@pytest.mark.slow
def test_a_second_choice_while_the_kernels_debugger_stops_leaves_one_rank_attached(
    panel_lab: JupyterServer, open_notebook: OpenNotebook
) -> None:
    assert panel_lab.has_panel
    cells = ["%load_ext jupyter_dist", "%dist_start -n 4 --name demo", "here = 1"]
    notebook = open_notebook(a_notebook(*cells), "two_choices", ran=2)
    page, debugger = notebook.page, LabDebugger(notebook.page, 2)
    sockets: list[Any] = []
    page.on("websocket", lambda socket: sockets.append(socket))  # noqa: PLW0108  (no built-in)
    Panel(page).open().wait_for_states("idle")
    page.locator(".jp-DebuggerBugButton").first.click()
    debugger.toggle_breakpoint(1)
    debugger.breakpoint.wait_for()  # the kernel's debugger has started
    with page.expect_websocket(_is_of_rank(0)) as first:
        page.evaluate(HOLD_DISCONNECT)
        debugger.choice.select_option(label="rank 0")
    page.wait_for_function("() => window.held.length === 1")
    with page.expect_websocket(_is_of_rank(1)):
        debugger.choice.select_option(label="rank 1")
    if not first.value.is_closed():
        first.value.wait_for_event("close")
    page.evaluate("() => window.held.forEach(letGo => letGo())")
    debugger.wait_for_choice("rank 1")
    of_ranks = [each for each in sockets if each.url.endswith("/debugger")]
    assert [each.is_closed() for each in of_ranks] == [True, False]


def _is_of_rank(rank: int) -> Callable[[Any], bool]:
    return lambda socket: f"/ranks/{rank}/debugger" in socket.url
