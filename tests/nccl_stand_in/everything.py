"""The cell that checks every operation and type against numpy; runs on the ranks, not here."""

import ml_dtypes
import numpy as np
from stand_in import get, put

KINDS = ["i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
SMALL = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
DTYPES = [np.dtype(kind) for kind in (*KINDS, *SMALL)]
SHAPES = [(), (0,), (3, 5), (70_001,)]
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def values(rank, shape, dtype):
    """Small whole numbers: exact in every type, and different on each rank."""
    return np.asarray(np.random.default_rng(rank).integers(1, 3, size=shape)).astype(dtype)


def same(found, expected):
    """Compare with what numpy says, bit by bit."""
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert get(found).tobytes() == np.ascontiguousarray(expected).tobytes(), found.dtype


def reduced(arrays, op):
    """As numpy reduces, keeping the type."""
    total = arrays[0]
    for array in arrays[1:]:
        total = np.asarray(UFUNCS[op](total, array)).astype(total.dtype)
    return total


def check_reductions(comm, inputs, mine):
    rank, size = comm.rank, comm.size
    rows = put(np.stack([inputs[rank]] * size))
    for op in UFUNCS:
        expected = reduced(inputs, op)
        same(comm.all_reduce(mine, op), expected)
        same(comm.reduce_scatter(rows, op), expected)
        found = comm.reduce(mine, size - 1, op)
        if rank == size - 1:
            same(found, expected)
    return 3 * len(UFUNCS)


def check_moves(comm, inputs, mine):
    rank, size = comm.rank, comm.size
    stack = np.stack(inputs)
    same(comm.all_gather(mine), stack)
    same(comm.all_to_all(put(stack)), np.stack([inputs[rank]] * size))
    for root in range(size):
        same(comm.broadcast(mine, root), inputs[root])
        gathered = comm.gather(mine, root)
        if rank == root:
            same(gathered, stack)
        same(comm.scatter(put(stack) if rank == root else mine, root), inputs[rank])
    after, before = (rank + 1) % size, (rank - 1) % size
    room = put(np.zeros_like(inputs[rank]))
    same(comm.send_recv(mine, after, room, before), inputs[before])
    return 3 + 3 * size


def check(comm):
    """Try everything; give how many results were compared."""
    count = 0
    for dtype in DTYPES:
        for shape in SHAPES:
            inputs = [values(each, shape, dtype) for each in range(comm.size)]
            mine = put(inputs[comm.rank])
            count += check_reductions(comm, inputs, mine) + check_moves(comm, inputs, mine)
            same(mine, inputs[comm.rank])
    ranks = put(np.full(1000, comm.rank, "f4"))
    same(comm.all_reduce(ranks, "avg"), np.full(1000, (comm.size - 1) / 2, "f4"))
    return count


check(comm)  # noqa: F821  (every rank has one)
