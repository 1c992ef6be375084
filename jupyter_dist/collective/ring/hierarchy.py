"""How collectives go where ranks of several hosts share memory on each: in it, and between leaders.

One rank of each host leads: the root of a call on its own host, elsewhere the last one. What ranks
have is brought together in the memory of their host, exchanged by the leaders over connections,
and spread in memory again. So a message crosses the network once for each host.

Everybody meets the others of its host first, and each leader the next one on the ring of leaders
before any result is handed out: so ranks which call different things find out. Neighbours on the
ring of all ranks that are on different hosts greet each other, too, because a rank that waits for a
message of its neighbour looks at no other connection.

Arrays are as in `algorithms`. Reductions take the ranks of a host in their order, and then the
hosts as `algorithms` takes ranks.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jupyter_dist.collective.calls.call import Array
from jupyter_dist.collective.ring import algorithms
from jupyter_dist.collective.ring.flow import Flow
from jupyter_dist.collective.ring.memory import algorithms as memory_algorithms
from jupyter_dist.collective.ring.memory.rounds import Rounds
from jupyter_dist.model.hosts.addresses import split_address
from jupyter_dist.text.lists import group_pairs

Members = dict[int, Sequence[int]]
"""Ranks that take part in something, in their order; and of each for which others it stands."""

Move = Callable[..., None]
"""Carries out one of `algorithms` on arrays over connections, among members."""


Hosts = Sequence[Sequence[int]]
"""The ranks of each host, which can share memory."""


def group_by_host(addresses: Iterable[str]) -> Hosts:
    """Return which ranks are on one host, by the addresses of all in their order."""
    return list(
        group_pairs((split_address(each)[0], rank) for rank, each in enumerate(addresses)).values()
    )


class Layout:
    """Which ranks are on one host, as all of them see it alike."""

    def __init__(self, hosts: Hosts, rank: int) -> None:
        self.rank = rank
        self.hosts = hosts
        """Ranks of each host, the host of rank 0 first."""
        size = sum(map(len, hosts))
        self.most = max(map(len, self.hosts))
        """Ranks on the fullest host."""
        self.here = self.host_of(rank)
        self._leaders: Members = {ranks[-1]: ranks for ranks in self.hosts}
        self.everybody: Members = {rank: (rank,) for rank in range(size)}
        here = self.hosts[self.here]
        self.neighbours_elsewhere = [(rank + step) % size not in here for step in (-1, 1)]
        """Whether the rank before this one is on another host, and the one behind it."""

    def host_of(self, rank: int) -> int:
        """Return the index of the host of a rank."""
        return next(index for index, ranks in enumerate(self.hosts) if rank in ranks)

    def leaders(self, root: int = -1) -> Members:
        """Return who leads each host in a call with this root, if any."""
        if root < 0:
            return self._leaders
        return {root if root in ranks else ranks[-1]: ranks for ranks in self.hosts}


class Levels:
    """What a rank moves arrays by in one call: the rounds of its host, and flows between leaders.

    All methods but `between` are for all ranks of a host, and collectives of them.
    """

    def __init__(self, layout: Layout, move: Move) -> None:
        self._layout = layout
        self._move = move
        self.rounds: Rounds | None = None
        """None where this rank is alone on its host, or before ranks share memory."""
        self._is_greeted, self._greets = layout.neighbours_elsewhere
        self._leaders = layout.leaders()
        self.root_host = -1

    def led_by(self, root: int) -> None:
        """Let this rank lead its host."""
        self._leaders = self._layout.leaders(root)
        self.root_host = self._layout.host_of(root)

    @property
    def is_leader(self) -> bool:
        """Return whether this rank leads its host."""
        return self._layout.rank in self._leaders

    @property
    def _leader(self) -> int:
        """Return which of the ranks of this host leads it."""
        leader = list(self._leaders)[self._layout.here]
        return self._layout.hosts[self._layout.here].index(leader)

    def greet(self) -> None:
        """Begin: send the header of the call to the next rank, if that is on another host."""
        if self._greets:
            self._move(self._layout.everybody, _greet_next)

    def be_greeted(self) -> None:
        """Wait, once, for the header of the rank before, if that is on another host."""
        if self._is_greeted:
            self._is_greeted = False
            self._move(self._layout.everybody, _be_greeted)

    def agree(self, *, does_share: bool) -> bool:
        """Return whether the ranks of all hosts share memory with those of theirs, or are alone."""
        here = self._layout.hosts[self._layout.here]
        agreed = np.array([does_share], np.uint8)
        self.between(algorithms.all_reduce, agreed, agreed, np.minimum)
        self._move({rank: (rank,) for rank in here}, algorithms.broadcast, agreed, len(here) - 1)
        return bool(agreed[0])

    def between(self, algorithm: Callable[..., None], *given: Any) -> None:
        """Carry out one of `algorithms` among the leaders, if this rank is one."""
        if self.is_leader:
            self.be_greeted()  # what a neighbour sends as a leader comes behind that
            self._move(self._leaders, algorithm, *given)

    def among_all(self, algorithm: Callable[..., None], *given: Any) -> None:
        """Carry out one of `algorithms` among all ranks, by connections alone."""
        self.be_greeted()
        self._move(self._layout.everybody, algorithm, *given)

    def meet(self) -> None:
        """Wait for all of this host."""
        if self.rounds is not None:
            memory_algorithms.barrier(self.rounds)

    def reduce(self, source: Array, target: Array, ufunc: np.ufunc) -> None:
        """Reduce into the leader's `target`."""
        if self.rounds is None:
            np.copyto(target, source)
        else:
            memory_algorithms.reduce(self.rounds, source, target, self._leader, ufunc)

    def broadcast(self, target: Array) -> None:
        """Copy the leader's `target` into everybody's."""
        if self.rounds is not None:
            memory_algorithms.broadcast(self.rounds, target, self._leader)

    def gather(self, source: Array) -> Array | None:
        """Return everybody's `source` (count) on the leader, in rows (most, count)."""
        rows = self.room_for_rows(source)
        if self.rounds is not None:
            wanted = None if rows is None else rows[: self.rounds.size]
            memory_algorithms.gather(self.rounds, source, wanted, self._leader)
        elif rows is not None:
            rows[0] = source
        return rows

    def scatter(self, rows: Array | None, target: Array) -> None:
        """Copy the leader's `rows` (most, count) into everybody's `target` (count)."""
        if self.rounds is not None:
            given = None if rows is None else rows[: self.rounds.size]
            memory_algorithms.scatter(self.rounds, given, target, self._leader)
        elif rows is not None:
            np.copyto(target, rows[0])

    def room_for_rows(self, row: Array) -> Array | None:
        """Return, on the leader, room for a row of each rank: as many as the fullest host has."""
        if not self.is_leader:
            return None
        return np.zeros((self._layout.most, row.size), row.dtype)

    def room_for_blocks(self, rows: Array) -> Array:
        """Return room for the rows of all hosts (hosts, most * count)."""
        return np.empty((len(self._leaders), rows.size), rows.dtype)

    def by_host(self, stack: Array) -> Array:
        """Return the rows of all ranks (size, count) for each host (hosts, most * count)."""
        blocks = np.zeros((len(self._leaders), self._layout.most, stack.shape[1]), stack.dtype)
        for block, ranks in zip(blocks, self._layout.hosts, strict=True):
            block[: len(ranks)] = stack[ranks]
        return blocks.reshape(len(blocks), -1)

    def by_rank(self, blocks: Array, stack: Array) -> None:
        """Take the rows of all ranks (size, count) from those of each host."""
        for block, ranks in zip(blocks, self._layout.hosts, strict=True):
            stack[ranks] = block.reshape(self._layout.most, -1)[: len(ranks)]


def _greet_next(flow: Flow) -> None:
    flow.open(flow.right, 0)
    flow.run()


def _be_greeted(flow: Flow) -> None:
    flow.receive(flow.left, memoryview(b""))
    flow.run()


def barrier(levels: Levels) -> None:
    """Wait until every rank is here."""
    levels.meet()
    levels.between(algorithms.barrier)
    levels.meet()


def all_reduce(levels: Levels, source: Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce over all ranks into `target`, which may be `source` itself."""
    levels.reduce(source, target, ufunc)
    levels.between(algorithms.all_reduce, target, target, ufunc)
    levels.broadcast(target)


def reduce(levels: Levels, source: Array, target: Array, root: int, ufunc: np.ufunc) -> None:
    """Reduce into the root's `target`; elsewhere it is room for partial results.

    It may be `source` itself.
    """
    levels.led_by(root)
    levels.reduce(source, target, ufunc)
    levels.between(algorithms.reduce, target, target, levels.root_host, ufunc)


def broadcast(levels: Levels, target: Array, root: int) -> None:
    """Copy the root's `target` into everybody's."""
    levels.led_by(root)
    levels.meet()
    levels.between(algorithms.broadcast, target, levels.root_host)
    levels.broadcast(target)


def all_gather(levels: Levels, source: Array, stack: Array) -> None:
    """Collect every rank's `source` (count) in `stack` (size, count)."""
    rows = levels.gather(source)
    if rows is not None:
        blocks = levels.room_for_blocks(rows)
        levels.between(algorithms.all_gather, rows.reshape(-1), blocks)
        levels.by_rank(blocks, stack)
    levels.broadcast(stack.reshape(-1))


def gather(levels: Levels, source: Array, stack: Array | None, root: int) -> None:
    """Collect every rank's `source` (count) in the root's `stack` (size, count)."""
    levels.led_by(root)
    rows = levels.gather(source)
    if rows is None:
        return
    blocks = None if stack is None else levels.room_for_blocks(rows)
    levels.between(algorithms.gather, rows.reshape(-1), blocks, levels.root_host)
    if blocks is not None:
        assert stack is not None
        levels.by_rank(blocks, stack)


def scatter(levels: Levels, stack: Array | None, target: Array, root: int) -> None:
    """Give row i of the root's `stack` (size, count) to rank i's `target` (count)."""
    levels.led_by(root)
    levels.meet()
    rows = levels.room_for_rows(target)
    blocks = None if stack is None else levels.by_host(stack)
    if rows is not None:
        levels.between(algorithms.scatter, blocks, rows.reshape(-1), levels.root_host)
    levels.scatter(rows, target)


def reduce_scatter(levels: Levels, source: Array, target: Array, ufunc: np.ufunc) -> None:
    """Reduce `source` (size, count) over all ranks; keep row `rank` in `target` (count)."""
    total = np.empty_like(source) if levels.is_leader else source
    levels.reduce(source.reshape(-1), total.reshape(-1), ufunc)
    rows = levels.room_for_rows(target)
    if rows is not None:
        blocks = levels.by_host(total)
        levels.between(algorithms.reduce_scatter, blocks, rows.reshape(-1), ufunc)
    levels.scatter(rows, target)


def all_to_all(levels: Levels, source: Array, target: Array) -> None:
    """Send row i of `source` (size, count) to rank i; row i of `target` comes from rank i.

    What goes to each is different, so leaders would only be in the way of it.
    """
    levels.meet()
    levels.between(algorithms.barrier)
    levels.among_all(algorithms.all_to_all, source, target)
