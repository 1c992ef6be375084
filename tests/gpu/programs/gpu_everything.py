"""Checks every operation and type against numpy; runs on the ranks, not here."""

import numpy as np
from gpu_arrays import EXTENSIONS, on_device, ops_for, reduced, same, values

KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
DTYPES = [*map(np.dtype, KINDS), EXTENSIONS[0]]
OF_NCCL = [*map(np.dtype, ["i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]), *EXTENSIONS]
SHAPES = [(), (5,), (3, 4), (0,), (1023, 33)]


def check(comm, dtypes=DTYPES):
    """Try everything; give how many results were compared."""
    rank, size, count = comm.rank, comm.size, 0
    for dtype in dtypes:
        for shape in SHAPES:
            inputs = [values(each, shape, dtype) for each in range(size)]
            stack = np.stack(inputs)
            mine, row_input = on_device(inputs[rank]), on_device(np.stack([inputs[rank]] * size))
            for op in ops_for(dtype):
                expected = reduced(inputs, op)
                same(comm.all_reduce(mine, op), expected)
                same(comm.reduce_scatter(row_input, op), expected)
                found = comm.reduce(mine, size - 1, op)
                if rank == size - 1:
                    same(found, expected)
                count += 3
            same(mine, inputs[rank])
            same(comm.all_gather(mine), stack)
            same(comm.all_to_all(on_device(stack)), np.stack([inputs[rank]] * size))
            for root in range(size):
                same(comm.broadcast(mine, root), inputs[root])
                gathered = comm.gather(mine, root)
                if rank == root:
                    same(gathered, stack)
                same(comm.scatter(on_device(stack) if rank == root else mine, root), inputs[rank])
                count += 3
            after, before = (rank + 1) % size, (rank - 1) % size
            same(
                comm.send_recv(mine, after, on_device(np.zeros_like(inputs[rank])), before),
                inputs[before],
            )
            count += 3
    ranks = on_device(np.full(1000, rank, "f4"))
    same(comm.all_reduce(ranks, "avg"), np.full(1000, (size - 1) / 2, "f4"))
    return count
