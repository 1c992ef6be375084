"""The notebook about many hosts, executed on three of them as a person would with Run All."""

from pathlib import Path

import nbformat

from tests.notebooks.test_notebooks import outputs_of

from .execute_notebook import execute

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "02_many_hosts.ipynb"


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
