"""Each call of a communicator for sparse matrices, made of its calls for arrays.

Ranks may have different numbers of nonzeros, and formats; types and shapes must agree only where
matrices are reduced. A result has the format that this rank has given; where a matrix stands for
what is to come, only its format counts. A product is what `*` of their class is, as in CuPy: of
matrices for csr_matrix and its like, in the order of ranks, and of numbers for csr_array.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from jupyter_dist.collective.calls.arguments import peer, refuse_stream
from jupyter_dist.collective.sparse.matrices import (
    WORDS,
    Header,
    array_module,
    combine,
    describe,
    header_of,
    is_sparse,
    multiplies_matrices,
    pack,
    unpack,
)
from jupyter_dist.collective.sparse.outs import check_out, check_outs, fill, fill_all
from jupyter_dist.collective.sparse.traffic import (
    REDUCTIONS,
    exchange,
    from_everybody,
    others,
    tell,
    to_each,
    to_root,
)
from jupyter_dist.errors import UsageError


def all_reduce(comm: Any, array: Any, op: str = "sum", out: Any = None) -> Any:
    """Reduce over all ranks; every rank gets the same bits."""
    _check_reduction("all_reduce", op)
    check_out("all_reduce", out, array)
    told = tell(comm, "all_reduce", [array], op)
    _check_alike("all_reduce", [of_rank[0] for of_rank in told], array, op)
    return fill(out, combine(from_everybody(comm, array, told), op))


def reduce(comm: Any, array: Any, root: int = 0, op: str = "sum", out: Any = None) -> Any:
    """Reduce over all ranks into the root; the others get None."""
    _check_reduction("reduce", op)
    root = peer("reduce", "root", root, comm.size)
    check_out("reduce", out if comm.rank == root else None, array)
    told = tell(comm, "reduce", [array], op, root)
    _check_alike("reduce", [of_rank[0] for of_rank in told], array, op)
    matrices = to_root(comm, array, told, root)
    return None if matrices is None else fill(out, combine(matrices, op))


def broadcast(comm: Any, array: Any, root: int = 0, out: Any = None) -> Any:
    """Return the root's matrix to everybody; elsewhere `array` tells the format."""
    root = peer("broadcast", "root", root, comm.size)
    check_out("broadcast", out, array)
    header = tell(comm, "broadcast", [array], root=root)[root][0]
    if comm.rank == root:
        comm.broadcast(pack(array, header), root)
        return fill(out, array.copy())
    output = array_module(array).empty(header.nbytes, np.uint8)
    return fill(out, unpack(comm.broadcast(output, root), header, array))


def all_gather(comm: Any, array: Any, out: Any = None, *, tiled: bool = False) -> Any:
    """Collect every rank's matrix: a list in the order of ranks."""
    if tiled:
        raise UsageError(
            "all_gather of sparse matrices got tiled=True. Accepted: False; the list that it gives "
            "is put together by vstack of scipy.sparse or cupyx.scipy.sparse."
        )
    check_outs("all_gather", out, array, comm.size)
    return fill_all(out, from_everybody(comm, array, tell(comm, "all_gather", [array])))


def gather(comm: Any, array: Any, root: int = 0, out: Any = None) -> Any:
    """Collect every rank's matrix in the root: a list there, None elsewhere."""
    root = peer("gather", "root", root, comm.size)
    check_outs("gather", out if comm.rank == root else None, array, comm.size)
    told = tell(comm, "gather", [array], root=root)
    return fill_all(out, to_root(comm, array, told, root))


def scatter(comm: Any, array: Any, root: int = 0, out: Any = None) -> Any:
    """Return matrix i of the root's list to rank i; elsewhere `array` tells the format."""
    root = peer("scatter", "root", root, comm.size)
    matrices = _listed(comm, "scatter", array) if comm.rank == root else [array]
    check_out("scatter", out, matrices[0])
    headers = tell(comm, "scatter", matrices, root=root, count=comm.size)[root]
    if comm.rank == root:
        sent = {rank: pack(matrices[rank], headers[rank]) for rank in others(comm)}
        exchange(comm, sent, {}, matrices[root])
        return fill(out, matrices[root].copy())
    mine = headers[comm.rank]
    came = exchange(comm, {}, {root: mine.nbytes}, array)[root]
    return fill(out, unpack(came, mine, array))


def reduce_scatter(comm: Any, array: Any, op: str = "sum", out: Any = None) -> Any:
    """Reduce lists of matrices over all ranks; rank i gets the reduction of all matrices i."""
    _check_reduction("reduce_scatter", op)
    matrices = _listed(comm, "reduce_scatter", array)
    mine = matrices[comm.rank]
    check_out("reduce_scatter", out, mine)
    told = tell(comm, "reduce_scatter", matrices, op)
    for index in range(comm.size):
        _check_alike("reduce_scatter", [of_rank[index] for of_rank in told], mine, op)
    return fill(out, combine(to_each(comm, matrices, told, [mine] * comm.size), op))


def all_to_all(comm: Any, array: Any, out: Any = None) -> Any:
    """Send matrix i of a list to rank i; matrix i of the result, also a list, is from it."""
    matrices = _listed(comm, "all_to_all", array)
    check_outs("all_to_all", out, matrices[0], comm.size)
    told = tell(comm, "all_to_all", matrices)
    return fill_all(out, to_each(comm, matrices, told, matrices))


def send(comm: Any, array: Any, dest: int) -> None:
    """Send to one rank, which calls recv with a sparse matrix."""
    header = describe("send", array)
    comm.send(array_module(array).asarray(header.words(), np.int64), dest)
    comm.send(pack(array, header), dest)


def recv(comm: Any, array_or_template: Any, source: int) -> Any:
    """Receive from one rank; the matrix becomes what has come, and is returned."""
    describe("recv", array_or_template)
    arrays = array_module(array_or_template)
    header = header_of(comm.recv(arrays.empty(WORDS, np.int64), source).tolist())
    packed = comm.recv(arrays.empty(header.nbytes, np.uint8), source)
    return fill(array_or_template, unpack(packed, header, array_or_template))


def send_recv(comm: Any, send_array: Any, dest: int, recv_array: Any, source: int) -> Any:
    """Send to one rank while receiving from another, or the same."""
    header = describe("send_recv", send_array)
    describe("send_recv", recv_array)
    arrays = array_module(recv_array)
    words = array_module(send_array).asarray(header.words(), np.int64)
    told = comm.send_recv(words, dest, arrays.empty(WORDS, np.int64), source)
    coming = header_of(told.tolist())
    output = arrays.empty(coming.nbytes, np.uint8)
    came = comm.send_recv(pack(send_array, header), dest, output, source)
    return fill(recv_array, unpack(came, coming, recv_array))


# --- how communicators come here -------------------------------------------------------------

WAYS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "all_reduce": ("array", all_reduce),
    "broadcast": ("array", broadcast),
    "reduce": ("array", reduce),
    "all_gather": ("array", all_gather),
    "reduce_scatter": ("array", reduce_scatter),
    "all_to_all": ("array", all_to_all),
    "gather": ("array", gather),
    "scatter": ("array", scatter),
    "send": ("array", send),
    "recv": ("array_or_template", recv),
    "send_recv": ("send_array", send_recv),
}
"""The name of the first argument of each method, and what is done when that is sparse."""

_Kind = TypeVar("_Kind", bound=type)


def takes_sparse(kind: _Kind) -> _Kind:
    """Make the methods of a communicator of host memory go this way when given sparse matrices.

    None of them takes a stream but None: that stands here once, for arrays as well.
    """
    for name, (first, _way) in WAYS.items():
        setattr(kind, name, _choose(name, getattr(kind, name), first))
    return kind


def _choose(name: str, dense: Callable[..., Any], first: str) -> Callable[..., Any]:
    @functools.wraps(dense)
    def call(self: Any, *arguments: Any, stream: Any = None, **named: Any) -> Any:
        if stream is not None:
            refuse_stream(name, stream)
        given = arguments[0] if arguments else named.get(first)
        if is_sparse(given):
            return call_sparse(name, self, *arguments, **named)
        return dense(self, *arguments, **named)

    return call


def call_sparse(operation: str, comm: Any, *arguments: Any, count: Any = None, **named: Any) -> Any:
    """Make a call with sparse matrices; a count is that of arrays, and means nothing here.

    Raises UsageError inside a group.
    """
    del count
    try:
        with comm.group():
            pass
    except UsageError as error:
        raise UsageError(
            f"{operation} of sparse matrices cannot stand inside comm.group(): how much is to come "
            "must be known before. Make the call outside the group."
        ) from error
    return WAYS[operation][1](comm, *arguments, **named)


# --- checks, made before anything is sent ----------------------------------------------------


def _check_reduction(operation: str, op: str) -> None:
    if op not in REDUCTIONS:
        raise UsageError(
            f"{operation} of sparse matrices got op={op!r}. Accepted: "
            f"{', '.join(map(repr, REDUCTIONS))}; an average is the sum divided by comm.size."
        )


def _listed(comm: Any, operation: str, given: Any) -> list[Any]:
    if not isinstance(given, (list, tuple)) or len(given) != comm.size:
        got = f"{len(given)}" if isinstance(given, (list, tuple)) else type(given).__name__
        raise UsageError(
            f"{operation} of sparse matrices got {got}. Accepted: a list with one matrix for each "
            f"rank, that is {comm.size}."
        )
    return list(given)


def _check_alike(operation: str, headers: Sequence[Header], matrix: Any, op: str) -> None:
    """Raise UsageError, on all ranks, when matrices that are to be reduced cannot be."""
    rows, columns = headers[0].shape
    if op == "prod" and rows != columns and multiplies_matrices(matrix):
        raise UsageError(
            f"{operation} got op='prod' for {headers[0]}: `*` of {type(matrix).__name__} is the "
            "product of matrices, as in CuPy, so that they must be square. Accepted: square "
            "ones, or classes like csr_array, whose `*` multiplies number by number."
        )
    if len({(header.dtype, header.shape) for header in headers}) > 1:
        told = "; ".join(f"rank {rank}: {header}" for rank, header in enumerate(headers))
        raise UsageError(
            f"{operation} got sparse matrices that differ: {told}. Accepted: the same dtype and "
            "shape on all ranks."
        )
