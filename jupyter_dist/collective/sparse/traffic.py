"""How sparse matrices travel: first what is to come is told to all, then each one goes as bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jupyter_dist.collective.calls.call import OPERATIONS
from jupyter_dist.collective.sparse.matrices import (
    Header,
    array_module,
    describe,
    header_of,
    multiplies_matrices,
    pack,
    unpack,
)
from jupyter_dist.errors import CollectiveMismatch

REDUCTIONS = ("sum", "prod")
_MEANT = (*REDUCTIONS, "prod of matrices")
"""What ranks tell each other: `*` of some classes multiplies numbers, and of others matrices."""
Told = Sequence[Sequence[Header]]
"""Of each rank, the headers of all matrices that it has brought."""


def tell(
    comm: Any,
    operation: str,
    matrices: Sequence[Any],
    op: str = "sum",
    root: int = -1,
    count: int = 0,
) -> Told:
    """Let every rank know the headers of all; who brings less than `count` repeats its first.

    Raises CollectiveMismatch, on all ranks, when they have called different things.
    """
    headers = [describe(operation, matrix) for matrix in matrices]
    headers += headers[:1] * (count - len(headers))
    way = _MEANT.index(op)
    if op == "prod" and multiplies_matrices(matrices[0]):
        way += 1
    meant = [OPERATIONS.index(operation), way, root]
    words = [meant + header.words() for header in headers]
    told = comm.all_gather(array_module(matrices[0]).asarray(words, np.int64)).tolist()
    for rank, rows in enumerate(told):
        theirs = rows[0][: len(meant)]
        if theirs != meant:
            world = comm.world_ranks
            raise CollectiveMismatch(world[rank], _call(*theirs), world[comm.rank], _call(*meant))
    return [[header_of(row[len(meant) :]) for row in rows] for rows in told]


def _call(operation: int, reduction: int, root: int) -> str:
    """Write what a rank has called, as `reduce(sparse, sum, root=2)`."""
    name = OPERATIONS[operation]
    words = ["sparse"]
    words += [_MEANT[reduction]] if "reduce" in name else []
    words += [f"root={root}"] if root >= 0 else []
    return f"{name}({', '.join(words)})"


def others(comm: Any) -> list[int]:
    """Return all ranks but this one."""
    return [rank for rank in range(comm.size) if rank != comm.rank]


def exchange(
    comm: Any, sent: Mapping[int, Any], nbytes: Mapping[int, int], like: Any
) -> dict[int, Any]:
    """Send bytes to some ranks while receiving from others; give what came by rank."""
    arrays = array_module(like)
    rooms = {rank: arrays.empty(count, np.uint8) for rank, count in nbytes.items()}
    with comm.group():
        for rank, output in rooms.items():
            comm.recv(output, rank)
        for rank, packed in sent.items():
            comm.send(packed, rank)
    return rooms


def from_everybody(comm: Any, matrix: Any, told: Told) -> list[Any]:
    """Collect every rank's one matrix."""
    sent = dict.fromkeys(others(comm), pack(matrix, told[comm.rank][0]))
    return _received(comm, matrix, told, sent)


def to_root(comm: Any, matrix: Any, told: Told, root: int) -> list[Any] | None:
    """Collect every rank's one matrix in the root; the others get None."""
    if comm.rank == root:
        return _received(comm, matrix, told, {})
    exchange(comm, {root: pack(matrix, told[comm.rank][0])}, {}, matrix)
    return None


def _received(comm: Any, mine: Any, told: Told, sent: Mapping[int, Any]) -> list[Any]:
    headers = [of_rank[0] for of_rank in told]
    came = exchange(comm, sent, {rank: headers[rank].nbytes for rank in others(comm)}, mine)
    return [
        mine.copy() if rank == comm.rank else unpack(came[rank], header, mine)
        for rank, header in enumerate(headers)
    ]


def to_each(comm: Any, matrices: Sequence[Any], told: Told, likes: Sequence[Any]) -> list[Any]:
    """Send matrix i to rank i; give what came from each rank, in the format of its `like`."""
    me = comm.rank
    sent = {rank: pack(matrices[rank], told[me][rank]) for rank in others(comm)}
    headers = [of_rank[me] for of_rank in told]
    nbytes = {rank: headers[rank].nbytes for rank in others(comm)}
    came = exchange(comm, sent, nbytes, matrices[me])
    return [
        matrices[me].copy() if rank == me else unpack(came[rank], header, likes[rank])
        for rank, header in enumerate(headers)
    ]
