"""What a type checker knows of the public API: mypy reads a program of a user."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """\
from typing import Any, assert_type

from jupyter_dist import Cluster


def use(cluster: Cluster) -> None:
    assert_type(cluster.pull("x"), dict[int, Any])
    assert_type(cluster.pull("x", 0, kind=float), dict[int, float])
    cluster.pull("x", kind=str)[0] + 1
"""


def test_a_pull_of_a_kind_is_of_that_kind(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    [error] = run.stdout.splitlines()
    # mypy may answer from its cache, with the path that it was asked about before.
    assert "program.py:9: error: Unsupported operand types" in error
