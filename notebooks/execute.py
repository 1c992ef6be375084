"""Run a notebook without a browser, print what it says, and save it with its outputs.

python notebooks/execute.py notebooks/01_first_cell.ipynb out/01_first_cell.ipynb
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_TIMEOUT_S = 120


def main() -> None:
    """Execute, print, save; ends with an error when a cell fails that was not meant to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("executed", type=Path)
    arguments = parser.parse_args()
    notebook = nbformat.read(arguments.notebook, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        store_widget_state=False,  # what is left in the end is static text and HTML
        resources={"metadata": {"path": str(Path.cwd())}},
    )
    arguments.executed.parent.mkdir(parents=True, exist_ok=True)
    try:
        client.execute()
    finally:
        nbformat.write(notebook, arguments.executed)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                show(cell)
    sys.stdout.write(f"\nThe executed notebook: {arguments.executed.resolve()}\n")


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
