"""Checks where results go, for every operation: beside the input, over it, across it."""

from typing import NamedTuple

import numpy as np
from gpu_arrays import EXTENSIONS, on_device, reduced, same, values

from jupyter_dist.errors import UsageError

DTYPES = [*map(np.dtype, ["f4", "i2", "c8"]), EXTENSIONS[0]]
SHAPES = [(5,), (3, 4)]


class Case(NamedTuple):
    """One call on this rank."""

    call: object
    """Takes input and out."""
    source: object
    expected: object
    """None where nothing comes."""
    ahead: int = 0
    """So many elements the input lies behind the beginning of out where NCCL works in place."""


def cases(comm, shape, dtype):
    """Return every operation, with what numpy says of its result."""
    rank, size, root = comm.rank, comm.size, comm.size - 1
    inputs = [values(each, shape, dtype) for each in range(size)]
    mine, stack = inputs[rank], np.stack(inputs)
    grid = [
        np.stack([values(10 * one + other, shape, dtype) for other in range(size)])
        for one in range(size)
    ]
    own = rank * mine.size
    is_root = rank == root
    total = reduced(inputs, "sum")
    row = reduced([rows[rank] for rows in grid], "sum")
    swapped = np.stack([rows[rank] for rows in grid])
    yield Case(lambda x, out: comm.all_reduce(x, out=out), mine, total)
    yield Case(lambda x, out: comm.reduce(x, root, out=out), mine, total if is_root else None)
    yield Case(lambda x, out: comm.broadcast(x, root, out=out), mine, inputs[root])
    yield Case(lambda x, out: comm.all_gather(x, out=out), mine, stack, own)
    yield Case(lambda x, out: comm.gather(x, root, out=out), mine, stack if is_root else None, own)
    yield Case(lambda x, out: comm.reduce_scatter(x, out=out), grid[rank], row, -own)
    yield Case(lambda x, out: comm.all_to_all(x, out=out), grid[rank], swapped)
    # Where it is not the root, the input tells the shape only.
    rows, ahead = (stack, -own) if is_root else (mine, 0)
    yield Case(lambda x, out: comm.scatter(x, root, out=out), rows, mine, ahead)


def check_apart(case):
    """Input and out have nothing in common; out may be flat, or in the order of Fortran."""
    shape, dtype = case.expected.shape, case.expected.dtype
    rooms = [
        on_device(np.zeros(shape, dtype)),
        on_device(np.zeros(case.expected.size, dtype)),
        on_device(np.zeros(shape[::-1], dtype)).T,
    ]
    for room in rooms:
        source = on_device(case.source)
        assert case.call(source, room) is room
        same(room if room.shape == shape else room.reshape(shape), case.expected)
        same(source, case.source)
    return len(rooms)


def check_across(case):
    """Input and out are in one buffer: as NCCL has it in place, and one element further."""
    source, expected = case.source, case.expected
    for ahead in (case.ahead, case.ahead + 1):
        at, into = max(0, ahead), max(0, -ahead)
        host = np.zeros(max(at + source.size, into + expected.size), source.dtype)
        host[at : at + source.size] = source.ravel()
        buffer = on_device(host)
        given = buffer[at : at + source.size].reshape(source.shape)
        room = buffer[into : into + expected.size].reshape(expected.shape)
        assert case.call(given, room) is room
        same(room, expected)
    return 2


def check_refused(comm):
    """An out with holes is refused on every rank before anything is sent."""
    x = on_device(np.ones(5, "f4"))
    rows = on_device(np.ones((comm.size, 5), "f4"))
    holes = on_device(np.zeros(10, "f4"))[::2]
    for call in (
        lambda: comm.all_reduce(x, out=holes),
        lambda: comm.broadcast(x, out=holes),
        lambda: comm.reduce_scatter(rows, out=holes),
    ):
        try:
            call()
        except UsageError as error:
            assert "not contiguous" in str(error)  # noqa: PT017  (ranks have no pytest)
        else:
            raise AssertionError("an out with holes was taken")


def check(comm):
    """Try everything; give how many results were compared."""
    count = 0
    for dtype in DTYPES:
        for shape in SHAPES:
            for case in cases(comm, shape, dtype):
                # What has no result here takes part as often as the others.
                if case.expected is None:
                    for _ in range(5):
                        assert case.call(on_device(case.source), None) is None
                    continue
                count += check_apart(case) + check_across(case)
    check_refused(comm)
    return count
