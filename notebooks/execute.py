"""Run a notebook without a browser, print what it says, and save it with its outputs.

python notebooks/execute.py notebooks/01_first_cell.ipynb out/01_first_cell.ipynb
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from debug_and_profile import TYPED
from nbclient import NotebookClient
from traitlets.config import Config

CELL_TIMEOUT_S = 120


class AnsweringClient(NotebookClient):
    """Executes a notebook, and types at prompts what a person would."""

    async def async_execute_cell(self, cell: nbformat.NotebookNode, *rest: Any, **more: Any) -> Any:
        """Execute a cell, and answer what it asks; where nothing is typed, no person is there."""
        typed = typed_in(cell)
        self.kc.allow_stdin = bool(typed)
        answering = asyncio.ensure_future(self._answer(iter(typed)))
        try:
            return await super().async_execute_cell(cell, *rest, **more)
        finally:
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await answering

    async def _answer(self, typed: Iterator[str]) -> None:
        while True:
            await self.kc.stdin_channel.get_msg(timeout=None)
            self.kc.input(next(typed, "c"))


def typed_in(cell: nbformat.NotebookNode) -> list[str]:
    """Return what is typed while this cell runs."""
    return next((TYPED[line] for line in cell.source.splitlines() if line in TYPED), [])


def main() -> None:
    """Execute, print, save; ends with an error when a cell fails that was not meant to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("executed", type=Path)
    arguments = parser.parse_args()
    notebook = nbformat.read(arguments.notebook, as_version=4)
    arguments.executed.parent.mkdir(parents=True, exist_ok=True)
    try:
        execute(notebook)
    finally:
        nbformat.write(notebook, arguments.executed)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                show(cell)
    sys.stdout.write(f"\nThe executed notebook: {arguments.executed.resolve()}\n")


def execute(notebook: nbformat.NotebookNode) -> None:
    """Execute it here; its kernel's sockets are files, as a free port may be another's by then."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's path has few characters
        client = AnsweringClient(
            notebook,
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}}),
            timeout=CELL_TIMEOUT_S,
            store_widget_state=False,  # what is left in the end is static text and HTML
            resources={"metadata": {"path": str(Path.cwd())}},
        )
        client.execute()


def show(cell: nbformat.NotebookNode) -> None:
    """Print a cell and its outputs as text."""
    source = cell.source.replace("\n", "\n    ")
    sys.stdout.write(f"\nIn [{cell.execution_count}]: {source}\n")
    for output in cell.outputs:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        if output.output_type == "error":
            text = f"{output.ename}: {output.evalue}"
        sys.stdout.write(text.rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
