"""How each operation is told to NCCL. Everything is queued on a stream; nothing waits.

Arrays are CuPy's, C-contiguous and checked; the current stream of CuPy is `stream`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from jupyter_dist.collective.calls.call import Message, Signature
from jupyter_dist.collective.nccl.api import NcclApi
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


def all_reduce(
    clique: Clique, _cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any
) -> None:
    """Reduce over all ranks into `target`."""
    clique.api.all_reduce(
        source.data.ptr,
        target.data.ptr,
        plan.count,
        plan.datatype,
        plan.op,
        clique.handle,
        stream,
    )


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


def reduce_scatter(
    clique: Clique, _cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any
) -> None:
    """Reduce `source` (size, …) over all ranks; row `rank` goes to `target`."""
    clique.api.reduce_scatter(
        source.data.ptr,
        target.data.ptr,
        plan.count,
        plan.datatype,
        plan.op,
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
    sent = _Rows(source, plan, ranks)
    received = _Rows(target, plan, ranks)
    _exchange_rows(clique, cuda, stream, sent, received)


def gather(clique: Clique, cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any) -> None:
    """Collect every rank's `source` in the root's `target` (size, …), None elsewhere."""
    sent = _Rows(source, plan, [plan.root], is_whole=True)
    received = _Rows(target, plan, [] if target is None else range(target.shape[0]))
    _exchange_rows(clique, cuda, stream, sent, received)


def scatter(clique: Clique, cuda: Cuda, plan: Plan, stream: int, source: Any, target: Any) -> None:
    """Give row i of the root's `source` (size, …), None elsewhere, to rank i's `target`."""
    sent = _Rows(source, plan, [] if source is None else range(source.shape[0]))
    received = _Rows(target, plan, [plan.root], is_whole=True)
    _exchange_rows(clique, cuda, stream, sent, received)


class _Rows:
    """Where the row for or from each of some ranks begins."""

    def __init__(
        self, array: Any, plan: Plan, ranks: Sequence[int], *, is_whole: bool = False
    ) -> None:
        step = 0 if is_whole else plan.count
        base = 0 if array is None else array.data.ptr
        self.pointers = {rank: base + rank * step for rank in ranks}
        self.nbytes = plan.count


def _exchange_rows(clique: Clique, cuda: Cuda, stream: int, sent: _Rows, received: _Rows) -> None:
    """Let each row travel; that of this rank itself is copied."""
    api, handle, nbytes, own = clique.api, clique.handle, sent.nbytes, clique.rank
    calls = [
        partial(api.send, pointer, nbytes, UINT8, rank, handle, stream)
        for rank, pointer in sent.pointers.items()
        if rank != own
    ]
    calls += [
        partial(api.recv, pointer, nbytes, UINT8, rank, handle, stream)
        for rank, pointer in received.pointers.items()
        if rank != own
    ]
    if own in sent.pointers and own in received.pointers:
        cuda.copy(sent.pointers[own], received.pointers[own], nbytes, stream)
    call_together(api, calls)


def exchange(
    clique: Clique,
    _cuda: Cuda,
    _plan: Plan,
    stream: int,
    sent: Sequence[Message],
    received: Sequence[Message],
) -> None:
    """Send and receive all of these at once, none of them to or from this rank itself."""
    api, handle = clique.api, clique.handle
    calls = [
        partial(api.send, end.array.data.ptr, end.array.nbytes, UINT8, end.peer, handle, stream)
        for end in sent
        if end.array.nbytes
    ]
    calls += [
        partial(api.recv, end.array.data.ptr, end.array.nbytes, UINT8, end.peer, handle, stream)
        for end in received
        if end.array.nbytes
    ]
    call_together(api, calls)


def call_together(api: NcclApi, calls: Sequence[Callable[[], None]]) -> None:
    """Begin all of these together, so that their order does not matter."""
    if not calls:
        return
    api.group_start()
    try:
        for call in calls:
            call()
    finally:
        # NCCL remembers open groups by thread: one that stays open spoils every later call.
        api.group_end()
