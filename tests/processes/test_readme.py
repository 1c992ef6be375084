"""The samples of README.md run as they stand, and say what stands beside them."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import run_program

ROOT = Path(__file__).parents[2]
SAMPLES = re.findall(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    (ROOT / "README.md").read_text(),
    re.DOTALL | re.MULTILINE,
)
SHELL = """\
import contextlib, io, json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
ends = []
try:
    for code in json.load(sys.stdin):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            result = shell.run_cell(code)
        ends.append((result.success, said.getvalue()))
finally:
    with contextlib.redirect_stdout(io.StringIO()):
        shell.run_cell("%dist_stop")
print(json.dumps(ends))
"""
# What the sample about checkpoints takes for granted.
TRAINING = """\
%%spmd
first, state, batches = 99_990, 0, iter(range(10))
def train(state, batch):
    return state + batch
"""


def samples(word):
    """Give the samples that have this word, as (code, what stands below it)."""
    return [sample for sample in SAMPLES if word in sample[0]]


def run_cells(cells):
    """Run cells in an IPython of their own; give for each whether it went well, and its words."""
    done = run_program("-c", SHELL, input=json.dumps(cells), timeout=150)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("home")
def test_each_cell_runs_and_prints_what_stands_below_it(tmp_path):
    start, first, checkpoints, jax = (
        cell for cell in SAMPLES if "from jupyter_dist" not in cell[0]
    )
    assert "%dist_start" in start[0]
    assert first[1], "what it prints stands below it"
    training = checkpoints[0].replace('"/scratch/me/run"', repr(str(tmp_path / "run")))
    assert "step % 1000 == 0" in training
    cells = [start[0], first[0], TRAINING, training.replace("1000", "5")]
    if importlib.util.find_spec("jax"):
        cells.append(jax[0])
    ends = run_cells([*cells, "%dist_checkpoints --dir " + str(tmp_path / "run")])
    assert [is_ok for is_ok, _said in ends] == [True] * len(ends), ends
    assert ends[1][1] == first[1]
    assert "99995" in ends[-1][1]


@pytest.mark.usefixtures("home")
def test_the_program_prints_what_its_comments_say(tmp_path):
    ((program, _),) = samples("from jupyter_dist import Cluster")
    promised = re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert promised
    path = tmp_path / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.splitlines() == promised
    assert not done.stderr


def test_every_sample_is_run_here():
    assert len(SAMPLES) == 5, "a new sample wants a test of its own"
