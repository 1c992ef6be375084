"""More ranks than are told of each other when they meet."""

import pytest

from jupyter_dist.protocol.places import FEW

from .results import values

SIZE = FEW + 6
HALF = SIZE // 2
"""No power of 2: no rank knows the one at that distance."""

SWAP = f"""
import numpy as np
other = (rank + {HALF}) % world_size
mine = np.full(4, rank, np.float32)
if rank < {HALF}:
    comm.send(mine, other)
theirs = comm.recv(np.empty_like(mine), other)
if rank >= {HALF}:
    comm.send(mine, other)
float(theirs[0]), float(comm.all_reduce(mine)[0])
"""


@pytest.mark.slow
def test_ranks_find_those_of_which_they_were_not_told(start):
    found = values(start(f"localhost:{SIZE}", comm="ring").run(SWAP))
    total = SIZE * (SIZE - 1) / 2
    assert found == [str(((rank + HALF) % SIZE + 0.0, total)) for rank in range(SIZE)]
