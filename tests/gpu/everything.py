"""The cell that checks every operation against numpy; runs on the ranks, not here."""

import cupy
import ml_dtypes
import numpy as np

KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
DTYPES = [np.dtype(kind) for kind in KINDS] + [np.dtype(ml_dtypes.bfloat16)]
SHAPES = [(), (5,), (3, 4), (0,), (1023, 33)]
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add}


def values(rank, shape, dtype):
    """Small whole numbers: exact in every type, and different on each rank."""
    found = np.random.default_rng(rank).integers(1, 3, size=shape)
    return np.asarray(found > 1) if dtype == np.bool_ else np.asarray(found).astype(dtype)


def on_device(array):
    """Copy it there, whatever its type."""
    if array.dtype.kind != "V":
        return cupy.asarray(array)
    return cupy.asarray(array.view("u2")).view(array.dtype)


def on_host(array):
    """Copy it back."""
    if array.dtype.kind != "V":
        return cupy.asnumpy(array)
    return cupy.asnumpy(array.view("u2")).view(array.dtype)


def same(found, expected):
    """Compare with what numpy says."""
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    np.testing.assert_array_equal(on_host(found), expected)


def reduced(arrays, op):
    """As numpy reduces, keeping the type."""
    total = arrays[0]
    for array in arrays[1:]:
        total = UFUNCS[op](total, array).astype(total.dtype)
    return total


def ops_for(dtype):
    """Reductions whose results are exact."""
    return ["sum"] if dtype.kind == "c" else ["sum", "prod", "min", "max"]


def check(comm):
    """Try everything; give how many results were compared."""
    rank, size, count = comm.rank, comm.size, 0
    for dtype in DTYPES:
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
    ones = cupy.ones(1000, "f4")
    same(comm.all_reduce(ones * rank, "avg"), np.full(1000, (size - 1) / 2, "f4"))
    return count


check(comm)  # noqa: F821  (every rank has one)
