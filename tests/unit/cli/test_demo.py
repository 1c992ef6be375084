"""`jupyter dist demo`, with nothing opened."""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from jupyter_dist.cli.demo import command
from jupyter_dist.cli.demo.notebooks import NAMES, without_outputs

ROOT = Path(__file__).parents[3]


@pytest.fixture
def opened(monkeypatch):
    """Install JupyterLab, or take it away; gives the commands that took over the process."""
    commands = []
    monkeypatch.setattr(os, "execv", lambda *words: commands.append(words[1]))
    monkeypatch.setattr(command, "find_spec", lambda *_: object())
    return commands


def test_notebooks_are_copied_without_outputs_and_opened_in_jupyterlab(dist, opened, tmp_path):
    folder = tmp_path / "new" / "a place"
    _, out, err = dist("demo", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    first = folder / NAMES[0]
    assert opened == [[sys.executable, "-P", "-m", "jupyterlab", str(first)]]
    assert f"jupyter lab '{first}'" in out
    assert err == ""
    cells = json.loads(first.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_a_second_time_changed_files_are_kept_and_told(dist, opened, tmp_path):
    assert dist("demo", str(tmp_path), "--no-open")[0] == 0
    (tmp_path / NAMES[1]).write_text("mine")
    (tmp_path / NAMES[2]).unlink()
    status, out, _ = dist("demo", str(tmp_path), "--no-open")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines() if "kept" in line] == [NAMES[1]]
    assert (tmp_path / NAMES[1]).read_text() == "mine"
    assert (tmp_path / NAMES[2]).exists()
    assert opened == []


def test_without_jupyterlab_it_is_told_what_to_install(dist, opened, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "find_spec", lambda *_: None)
    status, _, err = dist("demo", str(tmp_path))
    assert status == 1
    assert 'pip install "jupyter-dist[lab]"' in err
    assert opened == []
    assert (tmp_path / NAMES[0]).exists()


def test_a_folder_that_cannot_be_made_is_told(dist, opened, tmp_path):
    (tmp_path / "file").touch()
    status, _, err = dist("demo", str(tmp_path / "file"))
    assert status == 2
    assert str(tmp_path / "file") in err
    assert opened == []


def test_links_that_lead_out_of_the_folder_become_words():
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["see [a.md](../docs/a.md) ", "or [b](c)"]},
        {"cell_type": "code", "metadata": {}, "source": "[x](../y)", "outputs": [1], "execution_count": 2},
    ]  # fmt: skip
    notebook = json.loads(without_outputs(json.dumps({"cells": cells}).encode()))
    assert [cell["source"] for cell in notebook["cells"]] == ["see a.md or [b](c)", "[x](../y)"]


def test_the_wheel_ships_the_notebooks_that_are_copied():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    place = "jupyter_dist/cli/demo/shipped"
    assert {f"notebooks/{name}": f"{place}/{name}" for name in NAMES}.items() <= shipped.items()
    assert sum(where.startswith(place) for where in shipped.values()) == len(NAMES)
