"""How each operation is told to NCCL. Everything is queued on a stream; nothing waits.

Arrays are CuPy's, C-contiguous and checked; the current stream of CuPy is `stream`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from jupyter_dist.collective.calls.call import Message, Signature
from jupyter_dist.collective.nccl.clique import Clique
from jupyter_dist.collective.nccl.codes import UINT8
from jupyter_dist.collective.nccl.cuda import Cuda


class Plan(msgspec.Struct, frozen=True):
    """All that calls of one signature have in common."""

    signature: Signature
    launch: "Launched"
    shape: tuple[int, ...]
    """Of the result."""
    dtype: Any
    count: int
    """What NCCL is told: numbers of its type in the array, or in a row of it."""
    datatype: int = UINT8
    op: int = 0
    root: int = -1
    widened: str = ""
    """Type to convert to before, and back from after; empty: none."""
    strides: tuple[int, ...] = ()
    """Of a contiguous result, in bytes."""
    size: int = 0
    """Elements of the result."""


Then = Callable[[], None]
Launched = Callable[[Clique, Cuda, Plan, int, Any, Any], Then | None]
"""Takes the current stream, and what the operation reads and writes.

What it gives is to be called when NCCL has queued its part: until then NCCL's stream is its own.
"""


def _to_each(name: str) -> Launched:
    """Return the launch of a reduction into every rank's `target`, by its name in NCCL's API."""

    def launched(
        clique: Clique, _cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any
    ) -> None:
        getattr(clique.api, name)(
            source.data.ptr,
            target.data.ptr,
            plan.count,
            plan.datatype,
            plan.op,
            clique.handle,
            stream,
        )

    return launched


all_reduce, reduce_scatter = _to_each("all_reduce"), _to_each("reduce_scatter")


def reduce(clique: Clique, _cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any) -> None:
    """Reduce over all ranks into the root's `target`, which is None elsewhere."""
    clique.api.reduce(
        source.data.ptr,
        0 if target is None else target.data.ptr,
        plan.count,
        plan.datatype,
        plan.op,
        plan.root,
        clique.handle,
        stream,
    )


def widened(plain: Launched) -> Launched:
    """Make a reduction that works in a wider type, which NCCL has."""

    def launched(
        clique: Clique, cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any
    ) -> Then:
        wide = source.astype(plan.widened)
        output = None if target is None else cuda.cupy.empty(target.shape, plan.widened)
        plain(clique, cuda, plan, stream, wide, output)
        return partial(_narrow, cuda, wide, output, target)

    return launched


def _narrow(cuda: Cuda, wide: Any, output: Any, target: Any) -> None:
    """Convert back; `wide` is kept until here, so that others get its memory after NCCL only."""
    del wide
    if target is not None:
        cuda.cupy.copyto(target, output, casting="unsafe")


def broadcast(
    clique: Clique, _cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any
) -> None:
    """Give the root's `source` to everybody's `target`."""
    target_pointer = target.data.ptr
    source_pointer = target_pointer if source is None else source.data.ptr
    clique.api.broadcast(
        source_pointer, target_pointer, plan.count, UINT8, plan.root, clique.handle, stream
    )


def all_gather(
    clique: Clique, _cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any
) -> None:
    """Collect every rank's `source` in `target` (size, …)."""
    clique.api.all_gather(
        source.data.ptr, target.data.ptr, plan.count, UINT8, clique.handle, stream
    )


def all_to_all(
    clique: Clique, cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any
) -> None:
    """Send row i of `source` to rank i; row i of `target` comes from rank i."""
    ranks = range(plan.shape[0])
    _exchange_rows(
        clique, cuda, plan, stream, _rows(source, plan, ranks), _rows(target, plan, ranks)
    )


def gather(clique: Clique, cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any) -> None:
    """Collect every rank's `source` in the root's `target` (size, …), None elsewhere."""
    received = {} if target is None else _rows(target, plan, range(target.shape[0]))
    _exchange_rows(clique, cuda, plan, stream, {plan.root: source.data.ptr}, received)


def scatter(clique: Clique, cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any) -> None:
    """Give row i of the root's `source` (size, …), None elsewhere, to rank i's `target`."""
    sent = {} if source is None else _rows(source, plan, range(source.shape[0]))
    _exchange_rows(clique, cuda, plan, stream, sent, {plan.root: target.data.ptr})


def _rows(array: Any, plan: Plan, ranks: Iterable[int]) -> dict[int, int]:
    """Return where the row for or from each of these ranks begins."""
    return {rank: array.data.ptr + rank * plan.count for rank in ranks}


def _exchange_rows(
    clique: Clique,
    cuda: Cuda,
    plan: Plan,
    stream: int,
    sent: dict[int, int],
    received: dict[int, int],
) -> None:
    """Let each row travel; that of this rank itself is copied."""
    nbytes, own = plan.count, clique.rank
    if own in sent and own in received:
        cuda.copy(sent[own], received[own], nbytes, stream)
    _transfer(
        clique,
        stream,
        [(pointer, nbytes, rank) for rank, pointer in sent.items() if rank != own],
        [(pointer, nbytes, rank) for rank, pointer in received.items() if rank != own],
    )


def exchange(
    clique: Clique,
    _cuda: Cuda,
    _plan: Plan,
    stream: int,
    sent: Sequence[Message],
    received: Sequence[Message],
) -> None:
    """Send and receive all of these at once, none of them to or from this rank itself."""
    pieces = [
        [(end.array.data.ptr, end.array.nbytes, end.peer) for end in ends if end.array.nbytes]
        for ends in (sent, received)
    ]
    _transfer(clique, stream, *pieces)


_Piece = tuple[int, int, int]
"""Pointer, bytes, and the rank that they go to or come from."""


def _transfer(
    clique: Clique, stream: int, sent: Sequence[_Piece], received: Sequence[_Piece]
) -> None:
    """Begin all of these together, so that their order does not matter."""
    if not (sent or received):
        return
    api, handle = clique.api, clique.handle
    api.group_start()
    try:
        for pointer, nbytes, peer in sent:
            api.send(pointer, nbytes, UINT8, peer, handle, stream)
        for pointer, nbytes, peer in received:
            api.recv(pointer, nbytes, UINT8, peer, handle, stream)
    finally:
        # NCCL remembers open groups by thread: one that stays open spoils every later call.
        api.group_end()
