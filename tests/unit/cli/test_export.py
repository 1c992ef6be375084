import json

import pytest


@pytest.fixture
def notebook(tmp_path):
    """Write a notebook of these cells; gives its path."""

    def write(*sources):
        cells = [{"cell_type": "code", "source": source} for source in sources]
        file = tmp_path / "train.ipynb"
        file.write_text(json.dumps({"nbformat": 4, "cells": cells}))
        return str(file)

    return write


def test_a_program_is_written_to_stdout_or_to_a_file(dist, notebook, tmp_path):
    file = notebook("%%spmd\nprint(rank)", "print('here')")
    status, out, err = dist("export", file, "--to", "srun")
    assert status == 0
    assert out.endswith("print(rank)\n")
    assert "cell 2" in err
    output = tmp_path / "train.py"
    assert dist("export", file, "--to", "srun", "--output", str(output))[:2] == (0, "")
    assert output.read_text() == out
    assert dist("export", file, "--to", "srun", "--output", str(output))[0] == 2
    assert dist("export", file, "--to", "srun", "--output", str(output), "--force")[0] == 0


def test_a_notebook_with_obstacles_leaves_no_program(dist, notebook, tmp_path):
    output = tmp_path / "train.py"
    file = notebook("%%spmd\ncomm.barrier()")
    status, out, err = dist("export", file, "--to", "mpirun", "--output", str(output))
    assert (status, out) == (1, "")
    assert "train.ipynb: cell 1, line 2: comm" in err
    assert not output.exists()


def test_a_notebook_without_cells_on_ranks_is_no_program(dist, notebook):
    assert dist("export", notebook("x = 1"), "--to", "script")[:2] == (1, "")


def test_launchers_that_are_not_known_are_refused(dist, notebook):
    status, _out, err = dist("export", notebook("x = 1"), "--to", "qsub")
    assert status == 2
    assert "torchrun" in err
