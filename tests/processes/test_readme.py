"""The samples of README.md and of the page about scripts run as they stand, and say what stands beside them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import run_program

ROOT = Path(__file__).parents[2]
SAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
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


def read_samples(page):
    """Give the samples of a page, as (code, what stands below it)."""
    return SAMPLE.findall((ROOT / page).read_text())


SAMPLES = read_samples("README.md")


def run_cells(cells):
    """Run cells in an IPython of their own; give for each whether it went well, and its words."""
    done = run_program("-c", SHELL, input=json.dumps(cells), timeout=150)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("home")
def test_each_cell_runs_and_prints_what_stands_below_it():
    ends = run_cells([code for code, _shown in SAMPLES])
    assert [is_ok for is_ok, _said in ends] == [True, True], ends
    assert ends[1][1] == SAMPLES[1][1] != ""


@pytest.mark.usefixtures("home")
def test_the_program_prints_what_its_comments_say(tmp_path):
    ((program, _),) = read_samples("docs/how_to/from_python.md")
    promised = re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert promised
    path = tmp_path / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.splitlines() == promised
    assert not done.stderr
