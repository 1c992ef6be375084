"""Programs that `jupyter dist export` has made of notebooks, started by their launchers."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dist.cli.__main__ import main
from jupyter_dist.launch.batch.programs import find_mpiexec
from tests.reasons import WITHOUT_TORCH

from .test_mpi import needs_mpich

TORCH = [
    "%load_ext jupyter_dist\n%dist_start -n 2",
    "%%spmd\nimport torch, torch.distributed as dist\ndist.init_process_group()",
    "print('in the notebook')",
    (
        "%%spmd\nx = torch.full((3,), float(rank + 1))\ndist.all_reduce(x)\n"
        "print(f'{dist.get_rank()} of {world_size}: {x.tolist()}', flush=True)"
    ),
]
JAX = [
    "%dist_auto on",
    (
        "import jax, jax.numpy as jnp\nfrom jax.experimental import multihost_utils\n"
        "jax.distributed.initialize()"
    ),
    (
        "total = multihost_utils.process_allgather(jnp.float32(rank + 1)).sum()\n"
        "print(f'{rank} of {jax.process_count()}: {total}', flush=True)"
    ),
]
MPI = [
    (
        "%%spmd\nfrom mpi4py import MPI\n"
        "print(f'{rank} of {world_size}: {MPI.COMM_WORLD.allreduce(rank + 1)}', flush=True)"
    )
]


@pytest.fixture
def started(tmp_path):
    """Export a notebook and start it by these words; gives the ranks that say this, as one of N."""

    def run(cells, told, launcher, *words):
        notebook, program = tmp_path / "train.ipynb", tmp_path / "train.py"
        code = [{"cell_type": "code", "source": source} for source in cells]
        notebook.write_text(json.dumps({"nbformat": 4, "cells": code}))
        assert main(["export", str(notebook), "--to", launcher, "--output", str(program)]) == 0
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ran = subprocess.run(
            [*words, str(program)], capture_output=True, text=True, timeout=90, env=env, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return sorted(re.findall(rf"(\d of \d): {re.escape(told)}", ran.stdout))

    return run


@pytest.mark.slow
def test_torchrun_runs_a_notebook_of_torch(started):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    words = (torchrun, "--nproc-per-node=2")
    assert started(TORCH, "[3.0, 3.0, 3.0]", "torchrun", *words) == ["0 of 2", "1 of 2"]


@needs_mpich
@pytest.mark.parametrize(
    ("cells", "package", "told"),
    [
        (MPI, "mpi4py", "3"),
        pytest.param(JAX, "jax", "3.0", marks=pytest.mark.slow),
        pytest.param(TORCH, "torch", "[3.0, 3.0, 3.0]", marks=pytest.mark.slow),
    ],
)
def test_mpiexec_runs_notebooks_of_mpi_jax_and_torch(started, cells, package, told):
    pytest.importorskip(package, reason=f"{package} is no requirement of the tests")
    mpiexec = find_mpiexec() or shutil.which("mpiexec")
    words = (mpiexec, "-n", "2", sys.executable)
    assert started(cells, told, "mpirun", *words) == ["0 of 2", "1 of 2"]


def test_python_runs_a_notebook_as_one_rank(started):
    cells = ["%%spmd\nprint(f'{rank} of {world_size}: alone')"]
    assert started(cells, "alone", "script", sys.executable) == ["0 of 1"]
