"""A notebook as JupyterLab, or Jupyter Notebook, shows it in a real browser."""

import json
from pathlib import Path
from typing import Any

CELL_TIMEOUT_S = 90.0
"""Nothing is measured by it."""
WIDGET = ".jp-OutputArea .jd-topology"
"""The view in the output of a cell; the panel has one too, in the same page."""
# Lab's own word for the notebook in front; everything below speaks to it.
_KERNEL_IS_IDLE = """() => {
  const kernel = window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel;
  if (kernel?.connectionStatus !== 'connected') return false;
  // Lab asks once, and what a kernel says before the server has subscribed to it is lost.
  if (kernel.status === 'unknown') kernel.requestKernelInfo().catch(() => {});
  return kernel.status === 'idle';
}"""
_ASK_EACH_MS = 500
LOOK_EACH_MS = 50
"""How often a page looks: with each frame, as is the default, is 10 % of a core."""
# What stands in the way of it.
_OPENED = """() => {
  const context = window.jupyterapp?.shell?.currentWidget?.sessionContext;
  const kernel = context?.session?.kernel;
  const dialogs = [...document.querySelectorAll('.jp-Dialog')].map(each => each.innerText);
  return { ready: context?.isReady, name: kernel?.name, connection: kernel?.connectionStatus,
    status: kernel?.status, dialogs };
}"""
_RUN_CELL = """index => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  window.isCellDone = false;
  const turn = window.cellTurn = (window.cellTurn ?? 0) + 1;
  window.jupyterapp.commands.execute('notebook:run-cell').finally(() => {
    // An earlier cell, which no one has waited for, may end after the last one was started.
    window.isCellDone ||= turn === window.cellTurn;
  });
}"""
# Notes every state that a rank's cell is drawn in, in order.
FOLLOW_STATES = """() => {
  window.seen = {};
  const note = () => {
    for (const cell of document.querySelectorAll('.jp-OutputArea .jd-topology [data-rank]')) {
      const states = (window.seen[cell.dataset.rank] ??= []);
      if (states.at(-1) !== cell.dataset.state) states.push(cell.dataset.state);
    }
  };
  note();
  new MutationObserver(note).observe(document.body,
    { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state'] });
}"""


def a_notebook(*sources: str, kernel: str = "python3") -> dict[str, Any]:
    """Give a notebook with these code cells, as its file has it."""
    cells = [
        {
            "cell_type": "code", "id": f"cell-{number}", "source": source, "metadata": {},
            "outputs": [], "execution_count": None,
        }
        for number, source in enumerate(sources)
    ]  # fmt: skip
    spec = {"name": kernel, "display_name": kernel, "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}


def wait_until_all_are(state: str, page: Any, count: int = 4, view: str = WIDGET) -> None:
    """Wait until a view (a selector) draws so many ranks, all in this state."""
    page.wait_for_function(
        """([state, count, view]) => {
          const cells = [...document.querySelectorAll(view + ' [data-rank]')];
          return cells.length === count && cells.every(cell => cell.dataset.state === state);
        }""",
        arg=[state, count, view],
        polling=LOOK_EACH_MS,
    )


def a_meeting(gate: Path) -> str:
    """Give a cell whose ranks wait in a barrier for rank 0, which waits for this file to be there."""
    return f"""%%spmd
import os, time
while rank == 0 and not os.path.exists({str(gate)!r}):
    time.sleep(0.01)
comm.barrier()"""


def wait_until_all_wait_for_rank_0(page: Any) -> None:
    """Wait until the view draws ranks 1 to 3 in the barrier of such a cell, and rank 0 outside."""
    for rank, state in enumerate(["busy", *["collective"] * 3]):
        page.wait_for_selector(f'{WIDGET} [data-rank="{rank}"][data-state="{state}"]')


class LabNotebook:
    """A notebook that is open in JupyterLab; cells are named by their index."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.path = path

    def wait_for_kernel(self) -> None:
        """Wait until the kernel is connected and idle."""
        try:
            timeout_ms = CELL_TIMEOUT_S * 1000
            self.page.wait_for_function(_KERNEL_IS_IDLE, polling=_ASK_EACH_MS, timeout=timeout_ms)
        except Exception as problem:
            problem.add_note(f"of the notebook in front: {self.page.evaluate(_OPENED)}")
            raise

    def start(self, index: int) -> None:
        """Begin to run a cell."""
        self.page.evaluate(_RUN_CELL, index)

    def write(self, index: int, source: str) -> None:
        """Make this the source of a cell, whose output of before goes."""
        script = """([index, source]) => {
          const { model } = window.jupyterapp.shell.currentWidget.content.widgets[index];
          model.sharedModel.setSource(source);
          model.outputs.clear();
        }"""
        self.page.evaluate(script, [index, source])

    def wait(self, timeout_s: float = CELL_TIMEOUT_S) -> None:
        """Wait until the cell that was started last has ended, well or not."""
        self.page.wait_for_function(
            "() => window.isCellDone", timeout=timeout_s * 1000, polling=LOOK_EACH_MS
        )

    def run(self, index: int) -> str:
        """Run a cell to its end; give its output as a person reads it."""
        self.start(index)
        self.wait()
        return self.text(index)

    def text(self, index: int) -> str:
        """Give the rendered text of a cell's output."""
        script = """index => {
          const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
          return cell.outputArea?.node.innerText ?? '';
        }"""
        return str(self.page.evaluate(script, index)).replace("\xa0", " ")

    def wait_for_text(self, index: int, words: str, timeout_s: float = CELL_TIMEOUT_S) -> None:
        """Wait until a cell's output shows these words."""
        script = """([index, words]) => {
          const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
          return cell.outputArea.node.innerText.includes(words);
        }"""
        self.page.wait_for_function(
            script, arg=[index, words], timeout=timeout_s * 1000, polling=LOOK_EACH_MS
        )

    def show(self, index: int) -> Any:
        """Scroll to a cell; give its output area as an element to ask and to photograph."""
        script = """index => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          return notebook.scrollToItem(index, 'start').then(
            () => notebook.widgets[index].outputArea.node);
        }"""
        return self.page.evaluate_handle(script, index).as_element()

    def is_trusted(self, index: int) -> bool:
        """Tell whether Lab trusts the outputs of a cell."""
        script = "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.trusted"
        return bool(self.page.evaluate(script, index))

    def save(self) -> dict[str, Any]:
        """Save as Ctrl-S does; give what stands in the file."""
        self.command("docmanager:save")
        content: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return content

    def reload(self) -> None:
        """Load the whole page again, as F5 does."""
        self.page.reload()
        self.wait_for_kernel()

    def restart_kernel(self) -> None:
        """Restart the kernel as the menu does, without its question; wait for its answer."""
        # What it is said to do may still be what the one before did, so the new one is asked.
        script = """() => {
          const context = window.jupyterapp.shell.currentWidget.sessionContext;
          return context.restartKernel()
            .then(() => context.session.kernel.requestKernelInfo()).then(() => 0);
        }"""
        self.page.evaluate(script)
        self.wait_for_kernel()

    def shut_kernel_down(self) -> None:
        """End the kernel; the notebook stays open without one."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.wait_for_function(
            "() => !window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
        )

    def command(self, name: str, **arguments: object) -> None:
        """Run one of Lab's commands to its end."""
        script = (
            "([name, options]) => window.jupyterapp.commands.execute(name, options).then(() => 0)"
        )
        self.page.evaluate(script, [name, arguments])

    def change_theme(self, name: str) -> None:
        """Dress Lab in one of its themes."""
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function(
            """name => document.body.dataset.jpThemeName === name
              && !document.getElementById('jupyterlab-splash')""",
            arg=name,
        )
