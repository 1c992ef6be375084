"""How each collective moves its data where all ranks share memory: in rounds.

Each rank writes into its own slot, and reads what it needs out of the slots of others: reductions
take their operands from there, in the order of the ranks. The result of a small one lies behind
what rank 0 has written. Everybody meets everybody in each round,
so that ranks which call different things find out in the first one. What is larger than a slot
takes several rounds.

Arrays are as in `algorithms`, where the same functions move them over connections.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from jupyter_dist.collective.calls.call import Array
from jupyter_dist.collective.ring.algorithms import chunk_bounds
from jupyter_dist.collective.ring.memory.rounds import Rounds

TOGETHER_BYTES = 32 * 1024
"""Arrays up to this size the last rank to come reduces for all: in one round, and not two."""

_NOTHING = np.dtype(np.uint8)


def barrier(rounds: Rounds) -> None:
    """Wait until every rank is here."""
    rounds.meet(_NOTHING)


def all_reduce(rounds: Rounds, source: Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce over all ranks into `target`, which may be `source` itself."""
    _reduce_for(rounds, source, target, ufunc, is_wanted=True)


def reduce(rounds: Rounds, source: Array, target: Array, root: int, ufunc: np.ufunc) -> None:
    """Reduce into the root's `target`, which may be `source` itself; others are left alone."""
    _reduce_for(rounds, source, target, ufunc, is_wanted=rounds.rank == root)


def all_gather(rounds: Rounds, source: Array, stack: Array) -> None:
    """Collect every rank's `source` (count) in `stack` (size, count)."""
    for low, high in _spans(source.size, rounds.capacity(source.dtype)):
        rounds.mine(source.dtype)[: high - low] = source[low:high]
        stack[:, low:high] = rounds.meet(source.dtype)[:, : high - low]


def reduce_scatter(rounds: Rounds, source: Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce `source` (size, count) over all ranks; keep row `rank` in `target` (count)."""
    for low, high, rows in _exchanged(rounds, source):
        _combine(
            _with_own(rounds.rank, rows, source[rounds.rank, low:high]), target[low:high], ufunc
        )


def all_to_all(rounds: Rounds, source: Array, target: Array) -> None:
    """Send row i of `source` (size, count) to rank i; row i of `target` comes from rank i."""
    target[rounds.rank] = source[rounds.rank]
    for low, high, rows in _exchanged(rounds, source):
        for peer, row in enumerate(rows):
            if peer != rounds.rank:
                target[peer, low:high] = row


def broadcast(rounds: Rounds, target: Array, root: int) -> None:
    """Copy the root's `target` into everybody's."""
    dtype = target.dtype
    for low, high in _spans(target.size, rounds.capacity(dtype)):
        if rounds.rank == root:
            rounds.mine(dtype)[: high - low] = target[low:high]
        rows = rounds.meet(dtype)
        if rounds.rank != root:
            target[low:high] = rows[root, : high - low]


def gather(rounds: Rounds, source: Array, stack: Array | None, root: int) -> None:
    """Collect every rank's `source` (count) in the root's `stack` (size, count)."""
    for low, high in _spans(source.size, rounds.capacity(source.dtype)):
        rounds.mine(source.dtype)[: high - low] = source[low:high]
        rows = rounds.meet(source.dtype)
        if rounds.rank == root:
            assert stack is not None
            stack[:, low:high] = rows[:, : high - low]


def scatter(rounds: Rounds, stack: Array | None, target: Array, root: int) -> None:
    """Copy row i of the root's `stack` (size, count) into rank i's `target` (count)."""
    dtype = target.dtype
    share = rounds.capacity(dtype) // rounds.size
    for low, high in _spans(target.size, share):
        if stack is not None:
            _write_rows(rounds, stack, low, high)
        rows = rounds.meet(dtype)
        row = rows[root, rounds.rank * share :] if stack is None else stack[root, low:]
        target[low:high] = row[: high - low]


def _reduce_for(
    rounds: Rounds, source: Array, target: Array, ufunc: np.ufunc, *, is_wanted: bool
) -> None:
    """Reduce over all ranks into the `target` of those who want it."""
    if source.nbytes > TOGETHER_BYTES:
        _reduce_by_shares(rounds, source, target, ufunc, is_wanted=is_wanted)
        return
    count = source.size

    def finish(rows: Array) -> None:
        _combine(rows[:, :count], rows[0, count : 2 * count], ufunc)

    rounds.mine(source.dtype)[:count] = source
    rows = rounds.meet(source.dtype, finish)
    if is_wanted:
        target[:] = rows[0, count : 2 * count]


def _reduce_by_shares(
    rounds: Rounds, source: Array, target: Array, ufunc: np.ufunc, *, is_wanted: bool
) -> None:
    """Reduce block by block: each rank a share of it, which the others fetch a round later."""
    me, size, dtype = rounds.rank, rounds.size, source.dtype
    share = rounds.capacity(dtype) // (size + 1)
    result_at = size * share
    blocks = [
        [(low + start, low + stop) for start, stop in chunk_bounds(high - low, size)]
        for low, high in _spans(source.size, share * size)
    ]
    done: list[tuple[int, int]] = []
    for block in (*blocks, []):
        for peer, (low, high) in enumerate(block):
            if peer != me:
                rounds.mine(dtype)[peer * share :][: high - low] = source[low:high]
        rows = rounds.meet(dtype)
        if block:
            low, high = block[me]
            parts = _with_own(me, rows[:, me * share :][:, : high - low], source[low:high])
            _combine(parts, rounds.mine(dtype)[result_at:][: high - low], ufunc)
        if is_wanted:
            for peer, (low, high) in enumerate(done):
                target[low:high] = rows[peer, result_at:][: high - low]
        done = block


def _exchanged(rounds: Rounds, source: Array) -> Iterator[tuple[int, int, Array]]:
    """Give each rank its row of `source` (size, count), so many columns at a time.

    Gives the columns, and what of them all ranks had for this one; its own is not there.
    """
    share = rounds.capacity(source.dtype) // rounds.size
    for low, high in _spans(source.shape[1], share):
        _write_rows(rounds, source, low, high)
        rows = rounds.meet(source.dtype)
        yield low, high, rows[:, rounds.rank * share :][:, : high - low]


def _write_rows(rounds: Rounds, rows: Array, low: int, high: int) -> None:
    """Write these columns of all rows but this rank's own."""
    share = rounds.capacity(rows.dtype) // rounds.size
    for peer, row in enumerate(rows):
        if peer != rounds.rank:
            rounds.mine(rows.dtype)[peer * share :][: high - low] = row[low:high]


def _with_own(rank: int, rows: Array, own: Array) -> list[Array]:
    return [own if peer == rank else row for peer, row in enumerate(rows)]


def _combine(rows: Sequence[Array] | Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce two rows or more, one by one: ufunc.reduce knows not every dtype and byte order."""
    ufunc(rows[0], rows[1], out=target)
    for row in rows[2:]:
        ufunc(target, row, out=target)


def _spans(count: int, step: int) -> list[tuple[int, int]]:
    """Cut so many elements into ranges of at most `step`; one that is empty, if there are none."""
    return [(low, min(low + step, count)) for low in range(0, count or 1, step)]
