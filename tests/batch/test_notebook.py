"""A notebook starts ranks through Slurm by its magics, executed as a person would with Run All."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.test_notebooks import outputs_of

EXECUTE = Path(__file__).parents[2] / "notebooks" / "execute.py"
START = (
    "%dist_start --launcher slurm --nodes 2 --slots 2 --time-limit 1h --job-name from-a-notebook"
)
SUM = """\
%%spmd
import numpy as np
total = comm.all_reduce(np.array([rank + 1.0]))
print(f'rank {rank} of {world_size} got {total[0]:g}')
"""
CELLS = ("%load_ext jupyter_dist", START, SUM, "%dist_status", "%dist_stop")


def execute(folder, cells):
    """Run these cells in a kernel; give the notebook as executed."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text) for text in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
    )
    source, target = folder / "source.ipynb", folder / "executed.ipynb"
    nbformat.write(notebook, source)
    words = [sys.executable, EXECUTE, source, target]
    run = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return nbformat.read(target, as_version=4)


@pytest.mark.slow
def test_a_notebook_computes_on_the_nodes_of_a_job(slurm, start, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    executed = execute(tmp_path, CELLS)
    said = outputs_of(executed, "%%spmd")
    for rank in range(4):
        assert f"rank {rank} of 4 got 10" in said
    status = outputs_of(executed, "%dist_status")
    assert re.search(r"Slurm job \d+, RUNNING, ends in 59 min", status), status
    start.assert_nothing_left(10)
