"""MPI between hosts: ranks that ssh has started on each are one world."""

import pytest

from tests.processes.test_mpi import IMPORT, needs_mpich

from .clusters import values


@pytest.mark.slow
@needs_mpich
def test_ranks_of_two_hosts_are_one_world_of_mpi(lab, start, within):
    cluster = start("nodeA:2,nodeB:1")
    with within(15):
        found = values(cluster.run(IMPORT + "MPI.COMM_WORLD.allreduce(rank + 1)", timeout_s=90))
    assert found == ["6"] * 3
    code = "MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED).Get_size()"
    assert values(cluster.run(code, timeout_s=90)) == ["2", "2", "1"]
    code = (
        "import numpy as np\nx = np.full(1_000_000, rank + 1.0)\ny = np.empty_like(x)\n"
        "MPI.COMM_WORLD.Allreduce(x, y)\nfloat(y[-1])"
    )
    assert values(cluster.run(code, timeout_s=90)) == ["6.0"] * 3
