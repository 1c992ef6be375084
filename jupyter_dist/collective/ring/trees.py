"""How small arrays travel over connections: along trees, in few messages and few steps.

A call goes up a tree to its root, down a tree from it, or up and down again. Each tree is binomial:
a parent and its child are 1, 2, 4, … ranks apart, and no rank is further from the root than the
logarithm of their number. Data goes from a rank to one behind it in either tree, so that few pairs
are ever connected.

    up to rank 7                 down from rank 7 (before rank 0)
    0 ─> 1 ─┐                    7 ─┬─> 3 ─┬─> 5 ─> 6
    2 ─────>3 ─┐                    │      └─> 4
    4 ─> 5 ─┐  │                    ├─> 1 ─> 2
    6 ──────┴──┴> 7                 └─> 0

Arrays are as in `algorithms`, and small: each rank takes one whole before it passes it on.
"""

import numpy as np

from jupyter_dist.collective.calls.call import Array
from jupyter_dist.collective.ring.flow import Flow, as_bytes


def greet(flow: Flow) -> None:
    """Exchange headers with both neighbours, as every call does, whatever else it moves.

    So that ranks which are in different calls find out, however differently these move their data.
    """
    nothing = memoryview(bytearray())
    flow.open(flow.right, 0)
    flow.receive(flow.left, nothing)


def children(place: int, size: int) -> list[int]:
    """Return the places below this one in a tree whose root has place 0, nearest first."""
    found, step = [], 1
    while not place & step and place + step < size:
        found.append(place + step)
        step *= 2
    return found


def reduce_up(flow: Flow, source: Array, target: Array, root: int, ufunc: np.ufunc) -> None:
    """Reduce over all ranks into the root's `target`; elsewhere it is room for partial results.

    It may be `source` itself. Operands keep the order of the ranks, which begins behind the root.
    """
    size = flow.size
    place = (root - flow.rank) % size
    below = children(place, size)
    rows = np.empty((len(below), source.size), source.dtype)
    for child, row in zip(below, rows, strict=True):
        flow.receive((root - child) % size, as_bytes(row))
    flow.run()
    total = source
    for row in rows:
        ufunc(row, total, out=target)
        total = target
    if not below:
        np.copyto(target, source)
    if place:
        _send(flow, (root - _parent(place)) % size, target)


def broadcast_down(flow: Flow, target: Array, root: int) -> None:
    """Copy the root's `target` into everybody's, and end the call."""
    size = flow.size
    place = (flow.rank - root) % size
    if place:
        flow.receive((root + _parent(place)) % size, as_bytes(target))
        flow.run()
    for child in reversed(children(place, size)):  # those with most below them first
        _send(flow, (root + child) % size, target)
    flow.run()


def gather_up(flow: Flow, source: Array, root: int) -> Array:
    """Collect every rank's `source` (count) in the root; return its rows (size, count) there.

    Elsewhere the result is a part of them.
    """
    size = flow.size
    place = (root - flow.rank) % size
    below = children(place, size)
    ends = [*below[1:], min(size, place + _span(place, size))]
    rows = np.empty((ends[-1] - place, source.size), source.dtype)
    rows[-1] = source
    # The ranks of higher places are lower ones; so rows stand in the order of ranks.
    for child, end in zip(below, ends, strict=False):
        part = rows[len(rows) - (end - place) : len(rows) - (child - place)]
        flow.receive((root - child) % size, as_bytes(part))
    flow.run()
    if place:
        _send(flow, (root - _parent(place)) % size, rows)
    return rows


def _parent(place: int) -> int:
    return place & (place - 1)


def _span(place: int, size: int) -> int:
    """Return how many places are at and below this one, if the tree is not cut off."""
    return place & -place or size


def _send(flow: Flow, peer: int, array: Array) -> None:
    data = as_bytes(array)
    flow.open(peer, data.nbytes)
    flow.send(peer, data)
