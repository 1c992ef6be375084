"""Write the notebooks, so that a change to them reads as text.

python notebooks/make_notebooks.py
"""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).parent
FIRST_CELL = [
    (
        "md",
        """# The first cell

One notebook, several ranks. `%dist_start` starts an engine for each rank, `%%spmd` runs a cell
on all of them, and what they say comes back grouped: what is the same is shown once.""",
    ),
    ("py", "%load_ext jupyter_dist"),
    ("py", "%dist_start -n 4"),
    ("md", "Every rank runs the cell; `rank`, `world_size` and `comm` need no import."),
    (
        "py",
        """%%spmd
import os
print("the same words from everyone")
print(f"I am rank {rank} of {world_size}, process {os.getpid()}")""",
    ),
    ("md", "`comm` exchanges numpy arrays, with the names and semantics of MPI and NCCL."),
    (
        "py",
        """%%spmd
import numpy as np
mine = np.arange(4.0) * 10**rank
total = comm.all_reduce(mine)
print("all_reduce:", total)
total.sum()""",
    ),
    ("md", "Namespaces stay, cells may `await`, and only some ranks may be asked."),
    (
        "py",
        """%%spmd --ranks 0,3
import asyncio
await asyncio.sleep(0.1 * rank)
f"rank {rank} still has total = {total}\"""",
    ),
    ("md", "Objects move both ways."),
    ("py", "steps = 5\n%dist_push steps"),
    (
        "py",
        """%%spmd
x = np.full(3, float(rank))
for step in range(steps):
    x = comm.all_reduce(x, "max") + 1""",
    ),
    ("py", "%dist_pull x"),
    (
        "md",
        """When a rank raises while the others wait for it, nobody hangs: they are released at once,
the cell fails with the traceback that matters, and the next cell works.""",
    ),
    (
        "raises",
        """%%spmd
if rank == 2:
    1 / 0
comm.barrier()""",
    ),
    (
        "py",
        """%%spmd
comm.barrier()
"all here again\"""",
    ),
    ("py", "%dist_status"),
    ("py", "%dist_stop"),
]


def build(cells: list[tuple[str, str]]) -> nbformat.NotebookNode:
    """Make a notebook; cells of the kind `raises` are expected to fail."""
    notebook = new_notebook()
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    for number, (kind, source) in enumerate(cells):
        cell = new_markdown_cell(source) if kind == "md" else new_code_cell(source)
        cell.id = f"cell-{number}"
        if kind == "raises":
            cell.metadata.tags = ["raises-exception"]
        notebook.cells.append(cell)
    return notebook


if __name__ == "__main__":
    nbformat.write(build(FIRST_CELL), HERE / "01_first_cell.ipynb")
