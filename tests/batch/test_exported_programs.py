"""A notebook that was exported for srun, in jobs of the real Slurm."""

import json
import sys

import pytest

from jupyter_dist.cli.__main__ import main
from tests.reasons import WITHOUT_TORCH

FACTS = """\
%%spmd
import os
print(rank, world_size, local_rank, local_world_size, os.environ["MASTER_ADDR"], flush=True)
"""
TORCH = """\
%%spmd
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([float(rank)])
dist.all_reduce(x)
print(rank, x.item(), flush=True)
"""


@pytest.fixture
def exported(slurm):
    """Export one cell for srun; gives the path of the program, which hosts see."""

    def export(source):
        notebook, program = slurm.shared / "train.ipynb", slurm.shared / "train.py"
        cells = [{"cell_type": "code", "source": source}]
        notebook.write_text(json.dumps({"nbformat": 4, "cells": cells}))
        words = ["export", str(notebook), "--to", "srun", "--output", str(program), "--force"]
        assert main(words) == 0
        return str(program)

    return export


def test_ranks_on_two_hosts_know_who_they_are_and_where_rank_0_is(slurm, exported):
    told = slurm.ask("srun", "-N2", "-n3", "-m", "block", sys.executable, exported(FACTS))
    assert sorted(told.splitlines()) == ["0 3 0 2 nodeA", "1 3 1 2 nodeA", "2 3 0 1 nodeA"]


@pytest.mark.slow
def test_torch_forms_its_group_on_the_ranks_of_a_step(slurm, exported):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    told = slurm.ask("srun", "-N1", "-n2", sys.executable, exported(TORCH))
    assert sorted(told.splitlines()) == ["0 1.0", "1 1.0"]
