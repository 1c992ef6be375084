"""Checks calls of more bytes than 32 bits count, at every place where they could go wrong."""

import numpy as np
from gpu_arrays import xp


def marked(nbytes, rank):
    """Make bytes that are the rank and, every 16 MiB and at both ends, something else."""
    array = xp.full(nbytes, rank + 1, np.uint8)
    array[:: 1 << 24] = 100 + rank
    array[-1] = 50 + rank
    return array


def check_alone(comm, nbytes):
    """One call each way of so many bytes; give how many are wrong."""
    given = marked(nbytes, comm.rank)
    size = np.uint8(comm.size)
    wrong = int((comm.all_reduce(given) != given * size).sum()) if comm.size == 1 else 0
    wrong += int((comm.broadcast(given) != marked(nbytes, 0)).sum())
    return wrong


def check_between(comm, row_bytes):
    """Every rank sends so many bytes to each; give how many are wrong."""
    rows = xp.empty((comm.size, row_bytes), np.uint8)
    for other in range(comm.size):
        rows[other] = marked(row_bytes, comm.rank * comm.size + other)
    found = comm.all_to_all(rows)
    del rows
    wrong = 0
    for other in range(comm.size):
        wrong += int((found[other] != marked(row_bytes, other * comm.size + comm.rank)).sum())
    return wrong
