"""The notebook and the lesson about many hosts, executed on three of them."""

from pathlib import Path

import nbformat
import pytest

from tests.notebooks.test_notebooks import outputs_of
from tests.processes.lessons import reader_in, work_through

from .execute_notebook import execute
from .open_lab import write_spec

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "02_many_hosts.ipynb"
LESSON = ROOT / "docs" / "tutorial" / "many_hosts.md"


@pytest.mark.slow
def test_the_notebook_about_many_hosts_runs_across_three_of_them(lab, home, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    target = tmp_path / "executed.ipynb"
    run = execute(lab, tmp_path, NOTEBOOK, target, capture_output=True, text=True, timeout=110)
    assert run.returncode == 0, run.stdout + run.stderr
    executed = nbformat.read(target, as_version=4)
    cells = outputs_of(executed, "%%spmd")
    for rank, host in enumerate(("nodeA", "nodeA", "nodeB", "nodeB", "nodeC", "nodeC")):
        assert f"rank {rank} is number {rank % 2} of 2 on {host}" in cells
    assert "[0-5] all_reduce: [111111. 111111. 111111.]" in cells
    assert "[0-5] network: =eth0 eth0" in cells
    assert "'rain on 5'" in cells
    assert "'sun on 5'" in cells
    checked = outputs_of(executed, "%dist_check")
    assert "✓" in checked
    assert "✗" not in checked
    assert "host nodeC: up, ranks 4-5" in outputs_of(executed, "%dist_status")


@pytest.mark.slow
def test_the_lesson_about_many_hosts_shows_what_comes_out(lab, home, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "reader"
    folder.mkdir()
    write_spec(lab).replace(folder / "cluster.toml")
    hosts = ("--hosts nodeA:2,nodeB:2,nodeC:2", "--spec cluster.toml")
    with reader_in(folder) as reader:
        work_through(LESSON, reader, folder, *hosts)
