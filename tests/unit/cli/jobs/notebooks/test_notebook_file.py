"""Notebooks as files."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_dist.cli.jobs.notebooks.notebook_file import (
    check_output,
    read_notebook,
    write_notebook,
)
from jupyter_dist.errors import UsageError

WRONG = {
    "no JSON": "x = 1",
    "a list": "[]",
    "no cells": json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}}),
    "a cell of no kind": json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "x"}]}
    ),
    "another language": nbformat.writes(
        new_notebook(metadata={"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}})
    ),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_is_no_notebook_of_python_is_refused(tmp_path, text):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"x\.ipynb"):
        read_notebook(path)


def test_a_missing_notebook_is_named(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_notebook(tmp_path / "none.ipynb")


def test_a_notebook_is_written_whole_and_with_the_mode_of_new_files(tmp_path):
    path, beside = tmp_path / "out.ipynb", tmp_path / "other"
    beside.touch()
    for source in ("x = 1", "x = 2"):
        write_notebook(new_notebook(cells=[new_code_cell(source)]), path)
        assert read_notebook(path).cells[0].source == source
    assert path.stat().st_mode == beside.stat().st_mode
    assert sorted(tmp_path.iterdir()) == [beside, path]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.ipynb"
    path.write_text("old")
    with pytest.raises(AttributeError):
        write_notebook(None, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_is_another_file_in_a_folder_that_is_there(tmp_path):
    source = tmp_path / "train.ipynb"
    source.touch()
    (tmp_path / "same.ipynb").symlink_to(source)
    check_output(tmp_path / "out.ipynb", source)
    for name in ("train.ipynb", "same.ipynb", "none/out.ipynb", "."):
        with pytest.raises(UsageError, match="--output"):
            check_output(tmp_path / name, source)
