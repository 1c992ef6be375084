"""JupyterLab's debugger on a page, and what a person does with it to debug a rank."""

from typing import Any

CELL = """%%spmd
import numpy as np
def scale(weights, factor):
    scaled = weights * factor
    return scaled
weights = np.arange(4.0) + rank
mine = scale(weights, 1 + rank)
total = comm.all_reduce(mine)
print(total.sum())"""


class LabDebugger:
    """The debugger's panel and gutters, and what a person does with them."""

    def __init__(self, page: Any, cell: int) -> None:
        self.page = page
        self.editor = page.locator(".jp-Notebook .jp-Cell").nth(cell)
        self.breakpoint = self.editor.locator(
            ".cm-gutterElement:not(:first-child) .cm-breakpoint-icon"  # the first one is a spacer
        )
        self.choice = page.locator(".jdp-panel .jdp-choice select")

    def choose(self, label: str) -> None:
        """Choose a rank, or none, and wait until it is so."""
        self.choice.select_option(label=label)
        self.wait_for_choice(label)

    def wait_for_choice(self, label: str) -> None:
        """Wait until this is what is debugged."""
        self.page.wait_for_function(
            """label => {
              const choice = document.querySelector('.jdp-panel .jdp-choice select');
              return !choice.ariaBusy && choice.selectedOptions[0].label === label;
            }""",
            arg=label,
        )

    def toggle_breakpoint(self, line: int) -> None:
        gutter = self.editor.locator(".cm-gutter.cm-breakpoint-gutter .cm-gutterElement")
        gutter.nth(line).dispatch_event("mousedown")

    def wait_for_line(self, words: str) -> None:
        """Wait until the line with these words is the one at which the rank is stopped."""
        line = self.editor.locator(".jp-DebuggerEditor-highlight")
        line.get_by_text(words).first.wait_for()

    def wait_for_variable(self, name: str, value: str) -> None:
        self.page.wait_for_function(
            """([name, value]) => {
              const shown = document.querySelectorAll('.jp-DebuggerVariables .jp-TreeItem');
              return [...shown].some(
                item => item.innerText.includes(name) && item.innerText.includes(value));
            }""",
            arg=[name, value],
        )

    def press(self, name: str) -> None:
        """Press a button of the call stack."""
        command = f"debugger:{name}"
        self.page.wait_for_function("id => window.jupyterapp.commands.isEnabled(id)", arg=command)
        self.page.locator(f'.jp-DebuggerSidebar [data-command="{command}"]').click()
