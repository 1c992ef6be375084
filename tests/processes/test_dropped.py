"""A client that is dropped, and not detached, holds nobody up: no collection closes a socket."""

import subprocess
import sys
from pathlib import Path

import pytest

from .leftovers import coordinator_of

DROPPING = Path(__file__).with_name("dropping.py")
WARNINGS = ("-W", "error", "-X", "dev")
IN_A_NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "import gc, os, sys",
    "from jupyter_dist import Cluster",
    "c = Cluster.visit(sys.argv[1])",
    "os.kill(int(sys.argv[2]), 9)",
    "c.run('1')",
    "c = None",
    "1/0",
    "gc.collect()",
    "print('collected', type(sys.last_value).__name__, c)",
):
    shell.run_cell(cell)
"""


def run(*words, seconds):
    """Run a program, for at most so long."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.mark.slow
@pytest.mark.usefixtures("sweep")
def test_clients_are_dropped_in_every_order_and_in_copies_by_fork(start, within):
    cluster = start("localhost:1", name="left")
    with within(30) as watch:
        ended = run(*WARNINGS, DROPPING, "left", coordinator_of(cluster).pid, seconds=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    watch.assert_less(2, "to drop clients", took_s=float(ended.stdout))


@pytest.mark.usefixtures("sweep")
def test_a_notebook_whose_coordinator_died_collects_its_errors(start, within):
    cluster = start("localhost:1", name="left")
    with within(20):
        ended = run("-c", IN_A_NOTEBOOK, "left", coordinator_of(cluster).pid, seconds=60)
    assert ended.stdout.splitlines()[-1] == "collected ZeroDivisionError None", ended
