"""Checks sparse matrices of CuPy against those of scipy; in a rehearsal both are scipy's."""

import functools
import importlib
import operator

import numpy as np
import scipy.sparse
from gpu_arrays import ON_DEVICE, xp

theirs = importlib.import_module("cupyx.scipy.sparse") if ON_DEVICE else scipy.sparse
SIDE = 40


def matrix(rank, form, dtype):
    """Return each rank another number of nonzeros; small whole numbers, exact in every type."""
    rng = np.random.default_rng(rank)
    places = rng.integers(0, SIDE, (2, 9 * (rank + 1)))
    data = rng.integers(1, 4, places.shape[1]).astype(dtype)
    coo = scipy.sparse.coo_matrix((data, tuple(places)), shape=(SIDE, SIDE))
    coo.sum_duplicates()
    return coo.asformat(form)


def on_device(host):
    """Copy a matrix there."""
    copied = getattr(theirs, f"{host.format}_matrix")(host)
    settle()
    return copied


def settle():
    """Wait for all streams, of which comm may have one of its own."""
    if ON_DEVICE:
        xp.cuda.Device().synchronize()


def same(found, expected):
    """Compare type, format and every number with scipy's."""
    settle()
    found = found.get() if ON_DEVICE else found
    assert (found.dtype, found.shape, found.format) == (
        expected.dtype,
        expected.shape,
        expected.format,
    )
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


def check(comm):
    """Try sums, products, gathering and messages; give how many results were compared."""
    count, size, rank = 0, comm.size, comm.rank
    for form in ("csr", "csc", "coo"):
        for dtype in ("f4", "f8", "c8"):
            every = [matrix(each, form, dtype) for each in range(size)]
            mine = on_device(every[rank])
            for op, way in (("sum", operator.add), ("prod", operator.mul)):
                expected = functools.reduce(way, (each.tocsr() for each in every)).asformat(form)
                same(comm.all_reduce(mine, op), expected.astype(dtype))
                out = on_device(scipy.sparse.csr_matrix((2, 3), dtype=dtype))
                assert comm.all_reduce(mine, op, out) is out
                same(out, expected.astype(dtype).tocsr())
                count += 2
            for found, expected in zip(comm.all_gather(mine), every, strict=True):
                same(found, expected)
                count += 1
            for root in range(size):
                same(comm.broadcast(mine, root), every[root])
                count += 1
            after, before = (rank + 1) % size, (rank - 1) % size
            room = on_device(scipy.sparse.csr_matrix((1, 1), dtype=dtype).asformat(form))
            same(comm.send_recv(mine, after, room, before), every[before])
            same(mine, every[rank])
            count += 2
    return count
