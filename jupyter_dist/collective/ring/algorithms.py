"""How each collective moves its data, over a flow.

Whatever the operation, each rank sends a header to its right neighbour and checks the one of its
left: when ranks call different things, some neighbours differ, so someone notices before any
result is handed out. Large arrays travel round the ring in pieces, so that receiving, reducing
and passing on overlap; small ones along trees (`trees`), which takes twice the logarithm of n steps
instead of 2(n-1); and among few ranks directly to everybody, which takes one.

Which way an array goes follows from its size and the number of ranks alone. Each way reduces in one
order, so that equal ranks get equal bits each time.

Every array is C-contiguous and one-dimensional unless a shape is given. An average is a sum here.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from jupyter_dist.collective.calls.call import Array
from jupyter_dist.collective.ring import trees
from jupyter_dist.collective.ring.flow import Flow, as_bytes
from jupyter_dist.collective.ring.streams import Piece

SMALL_BYTES = 8192
"""A share of this size or less of each rank is not worth the steps of the ring."""

DIRECT_RANKS = 16
"""Beyond this many ranks a direct exchange costs more than a tree."""

PIECE_BYTES = 256 * 1024
"""Small enough to stay in a core's cache between receiving, reducing and passing on."""

Bounds = list[tuple[int, int]]


def chunk_bounds(count: int, parts: int) -> Bounds:
    """Cut `count` elements into `parts` nearly equal ranges, as (start, stop)."""
    edges = [index * count // parts for index in range(parts + 1)]
    return list(pairwise(edges))


def piece_bounds(start: int, stop: int, itemsize: int) -> Iterator[tuple[int, int]]:
    """Cut a range of elements into pieces of at most PIECE_BYTES."""
    step = max(1, PIECE_BYTES // itemsize)
    for low in range(start, stop, step):
        yield low, min(low + step, stop)


def is_direct(nbytes: int, size: int) -> bool:
    """Return whether an array of so many bytes goes directly to everybody."""
    return nbytes <= SMALL_BYTES and size <= DIRECT_RANKS


def is_small(nbytes: int, size: int) -> bool:
    """Return whether an array of so many bytes goes along a tree."""
    return nbytes <= SMALL_BYTES * size


def exchange(flow: Flow, source: Array, stack: Array) -> None:
    """Give `source` (count) to everybody and collect everybody's in `stack` (size, count)."""
    stack[flow.rank] = source
    data, rooms = as_bytes(source), as_bytes(stack)
    nbytes = data.nbytes
    for distance in range(1, flow.size):
        peer = (flow.rank + distance) % flow.size
        flow.open(peer, nbytes)
        flow.send(peer, data)
    for distance in range(1, flow.size):
        peer = (flow.rank - distance) % flow.size
        flow.receive(peer, rooms[peer * nbytes : (peer + 1) * nbytes])
    flow.run()


def barrier(flow: Flow) -> None:
    """Wait until every rank is here."""
    nothing = np.empty(0, np.uint8)
    all_reduce(flow, nothing, nothing, np.add)


def all_reduce(flow: Flow, source: Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce over all ranks into `target`, which may be `source` itself."""
    if flow.size == 1:
        np.copyto(target, source)
    elif is_direct(source.nbytes, flow.size):
        stack = np.empty((flow.size, source.size), source.dtype)
        exchange(flow, source, stack)
        # Row by row: ufunc.reduce knows neither every dtype nor every byte order.
        ufunc(stack[0], stack[1], out=target)
        for row in stack[2:]:
            ufunc(target, row, out=target)
    elif is_small(source.nbytes, flow.size):
        trees.greet(flow)
        trees.reduce_up(flow, source, target, flow.size - 1, ufunc)
        trees.broadcast_down(flow, target, flow.size - 1)
    else:
        ring_all_reduce(flow, source, target, ufunc)


def ring_all_reduce(flow: Flow, source: Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce chunk by chunk round the ring, then pass the finished chunks round once more."""
    chunks = chunk_bounds(source.size, flow.size)
    sums = [(flow.rank - step) % flow.size for step in range(flow.size - 1)]
    done = [(flow.rank + 1 - step) % flow.size for step in range(flow.size - 1)]
    flow.open(flow.right, _nbytes(source, chunks, sums + done))
    _send_chunk(flow, source, chunks[flow.rank])

    def pieces() -> Iterator[Piece]:
        yield from _reduced(flow, source, target, ufunc, [chunks[i] for i in _before(flow, sums)])
        # The last chunk to come has been everywhere.
        finished = [chunks[i] for i in _before(flow, done)]
        yield from _gathered(flow, target, finished, len(finished) - 1)

    incoming = _nbytes(source, chunks, _before(flow, sums) + _before(flow, done))
    flow.expect(flow.left, incoming, pieces())
    flow.run()


def all_gather(flow: Flow, source: Array, stack: Array) -> None:
    """Collect every rank's `source` (count) in `stack` (size, count)."""
    if is_direct(source.nbytes, flow.size):
        exchange(flow, source, stack)
        return
    stack[flow.rank] = source
    if flow.size == 1:
        return
    flat = stack.reshape(-1)
    if is_small(flat.nbytes, flow.size):
        trees.greet(flow)
        root = flow.size - 1
        rows = trees.gather_up(flow, source, root)
        if flow.rank == root:
            stack[:] = rows
        trees.broadcast_down(flow, flat, root)
        return
    chunks = chunk_bounds(flat.size, flow.size)
    sent = [(flow.rank - step) % flow.size for step in range(flow.size - 1)]
    flow.open(flow.right, _nbytes(flat, chunks, sent))
    _send_chunk(flow, flat, chunks[flow.rank])
    received = _before(flow, sent)
    plan = _gathered(flow, flat, [chunks[i] for i in received], len(received) - 1)
    flow.expect(flow.left, _nbytes(flat, chunks, received), plan)
    flow.run()


def reduce_scatter(flow: Flow, source: Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce `source` (size, count) over all ranks; keep row `rank` in `target` (count)."""
    if flow.size == 1:
        np.copyto(target, source[0])
        return
    flat = source.reshape(-1)
    partial_sums = np.empty_like(flat)
    chunks = chunk_bounds(flat.size, flow.size)
    sent = [(flow.rank - 1 - step) % flow.size for step in range(flow.size - 1)]
    flow.open(flow.right, _nbytes(flat, chunks, sent))
    _send_chunk(flow, flat, chunks[sent[0]])
    *passed_on, kept = [chunks[index] for index in _before(flow, sent)]

    def pieces() -> Iterator[Piece]:
        yield from _reduced(flow, flat, partial_sums, ufunc, passed_on)
        yield from _reduced(flow, flat, partial_sums, ufunc, [kept], is_last=True)

    flow.expect(flow.left, _nbytes(flat, chunks, _before(flow, sent)), pieces())
    flow.run()
    np.copyto(target, partial_sums[slice(*kept)])


def broadcast(flow: Flow, target: Array, root: int) -> None:
    """Copy the root's `target` into everybody's."""
    if flow.size == 1:
        return
    if is_small(target.nbytes, flow.size):
        trees.greet(flow)
        trees.broadcast_down(flow, target, root)
        return
    position = (flow.rank - root) % flow.size
    is_last = position == flow.size - 1
    flow.open(flow.right, 0 if is_last else target.nbytes)
    whole = (0, target.size)
    if position == 0:
        _send_chunk(flow, target, whole)
        flow.expect(flow.left, 0)
    else:
        plan = _gathered(flow, target, [whole], 0 if is_last else 1)
        flow.expect(flow.left, target.nbytes, plan)
    flow.run()


def reduce(flow: Flow, source: Array, target: Array, root: int, ufunc: np.ufunc) -> None:
    """Reduce into the root's `target`; elsewhere it is room for partial results.

    It may be `source` itself.
    """
    if flow.size == 1:
        np.copyto(target, source)
        return
    if is_small(source.nbytes, flow.size):
        trees.greet(flow)
        trees.reduce_up(flow, source, target, root, ufunc)
        flow.run()
        return
    position = (flow.rank - root - 1) % flow.size
    is_root = flow.rank == root
    flow.open(flow.right, 0 if is_root else source.nbytes)
    whole = (0, source.size)
    if position == 0:
        _send_chunk(flow, source, whole)
        flow.expect(flow.left, 0)
    else:
        plan = _reduced(flow, source, target, ufunc, [whole], is_last=is_root)
        flow.expect(flow.left, source.nbytes, plan)
    flow.run()


def all_to_all(flow: Flow, source: Array, target: Array) -> None:
    """Send row i of `source` (size, count) to rank i; row i of `target` comes from rank i."""
    target[flow.rank] = source[flow.rank]
    for distance in range(1, flow.size):
        peer = (flow.rank + distance) % flow.size
        data = as_bytes(source[peer])
        flow.open(peer, data.nbytes)
        flow.send(peer, data)
    for distance in range(1, flow.size):
        peer = (flow.rank - distance) % flow.size
        flow.receive(peer, as_bytes(target[peer]))
    flow.run()


def gather(flow: Flow, source: Array, stack: Array | None, root: int) -> None:
    """Collect every rank's `source` (count) in the root's `stack` (size, count)."""
    if flow.size > 1 and is_small(source.nbytes * flow.size, flow.size):
        trees.greet(flow)
        rows = trees.gather_up(flow, source, root)
        flow.run()
        if stack is not None:
            stack[:] = np.roll(rows, root + 1, axis=0)
        return
    data = as_bytes(source)
    sends = {flow.right: 0} if flow.size > 1 else {}
    if stack is None:
        sends[root] = data.nbytes
    for peer, nbytes in sends.items():
        flow.open(peer, nbytes)
        flow.send(peer, data[:nbytes])
    if stack is None:
        flow.receive(flow.left, data[:0])
    else:
        stack[flow.rank] = source
        for peer in _others(flow):
            flow.receive(peer, as_bytes(stack[peer]))
    flow.run()


def scatter(flow: Flow, stack: Array | None, target: Array, root: int) -> None:
    """Give row i of the root's `stack` (size, count) to rank i's `target` (count)."""
    data = as_bytes(target)
    sends = {flow.right: 0} if flow.size > 1 else {}
    receives = {flow.left: 0} if flow.size > 1 else {}
    if stack is None:
        receives[root] = data.nbytes
    else:
        np.copyto(target, stack[flow.rank])
        sends |= dict.fromkeys(_others(flow), data.nbytes)
    for peer, nbytes in sends.items():
        flow.open(peer, nbytes)
        if nbytes and stack is not None:
            flow.send(peer, as_bytes(stack[peer]))
    for peer, nbytes in receives.items():
        flow.receive(peer, data[:nbytes])
    flow.run()


def _others(flow: Flow) -> list[int]:
    return [peer for peer in range(flow.size) if peer != flow.rank]


def _before(flow: Flow, sent: list[int]) -> list[int]:
    """Return what the left neighbour sends, given what this rank sends: one chunk further back."""
    return [(index - 1) % flow.size for index in sent]


def _nbytes(array: Array, chunks: Bounds, indices: list[int]) -> int:
    return sum(chunks[index][1] - chunks[index][0] for index in indices) * array.itemsize


def _send_chunk(flow: Flow, array: Array, chunk: tuple[int, int]) -> None:
    flow.send(flow.right, as_bytes(array[slice(*chunk)]))


def _reduced(
    flow: Flow,
    source: Array,
    target: Array,
    ufunc: np.ufunc,
    chunks: Bounds,
    *,
    is_last: bool = False,
) -> Iterator[Piece]:
    """Receive partial results, add ours into `target`, and pass them on unless we are the last."""
    output = np.empty(max(1, PIECE_BYTES // source.itemsize), source.dtype)

    def add(low: int, high: int) -> None:
        ufunc(source[low:high], output[: high - low], out=target[low:high])
        if not is_last:
            flow.send(flow.right, as_bytes(target[low:high]))

    for start, stop in chunks:
        for low, high in piece_bounds(start, stop, source.itemsize):
            yield as_bytes(output[: high - low]), partial(add, low, high)


def _gathered(flow: Flow, target: Array, chunks: Bounds, passed_on: int) -> Iterator[Piece]:
    """Receive finished chunks into place, and pass the first `passed_on` of them on."""
    for index, (start, stop) in enumerate(chunks):
        for low, high in piece_bounds(start, stop, target.itemsize):
            data = as_bytes(target[low:high])
            yield data, partial(flow.send, flow.right, data) if index < passed_on else None
