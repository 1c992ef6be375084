"""What each collective leaves on each rank, over real connections between threads of one process."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count, permutations

import numpy as np
import pytest

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.ring import algorithms
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.flow import Flow
from jupyter_dist.collective.ring.transport import RingTransport

ITEMS = (0, 1, 5, 24)
"""Elements: none, fewer than ranks, not divisible by them, divisible."""


class Ring:
    """Ranks that take part in one operation after the other."""

    def __init__(self, size):
        self.size = size
        listeners = [bind_listener("127.0.0.1") for _ in range(size)]
        peers = [address_of(listener) for listener in listeners]
        self._ranks = [
            RingTransport(Group(rank, size, 1), listener, peers, b"secret")
            for rank, listener in enumerate(listeners)
        ]
        self._threads = ThreadPoolExecutor(size)
        self._numbers = count()

    def each(self, act):
        """Let each rank do `act(transport, call, rank)`; give what it returns."""
        call = Call(Signature("all_reduce", "<i8"), next(self._numbers))

        def run(rank):
            transport = self._ranks[rank]
            transport.enter(5.0, "")
            try:
                return act(transport, call, rank)
            except BaseException:
                for other in self._ranks:
                    other.abort(Breakage("left", rank, "has failed"))
                raise

        return list(self._threads.map(run, range(self.size)))

    def close(self):
        for transport in self._ranks:
            transport.close()
        self._threads.shutdown()


@pytest.fixture(params=[1, 2, 3, 5])
def ring(request):
    made = Ring(request.param)
    yield made
    made.close()


@pytest.fixture(params=["direct", "ring", "ring in pieces"], autouse=True)
def way(request, monkeypatch):
    """All ways are taken by arrays of few elements."""
    if request.param != "direct":
        monkeypatch.setattr(algorithms, "SMALL_BYTES", -1)
    if request.param == "ring in pieces":
        monkeypatch.setattr(algorithms, "PIECE_BYTES", 16)  # two elements
    return request.param


def of_rank(rank, *shape):
    """Make an array whose elements differ, also from those of other ranks."""
    return np.arange(np.prod(shape), dtype="<i8").reshape(shape) + 1000 * (rank + 1)


def results(ring, algorithm, given, *shape, more=()):
    """Let an algorithm move what each rank has; give what it leaves in room of this shape."""

    def run(transport, call, rank):
        output = np.full(shape, -1, "<i8")
        transport.run(call, algorithm, given[rank], output, *more)
        return output

    return ring.each(run)


@pytest.mark.parametrize("items", ITEMS)
def test_all_reduce_leaves_the_sum_everywhere(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    for output in results(ring, algorithms.all_reduce, given, items, more=[np.add]):
        np.testing.assert_array_equal(output, sum(given))
    for rank, array in enumerate(given):
        np.testing.assert_array_equal(array, of_rank(rank, items))


@pytest.mark.parametrize("items", ITEMS)
def test_all_reduce_in_place(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    wanted = np.max(given, axis=0)

    def reduce(transport, call, rank):
        transport.run(call, algorithms.all_reduce, given[rank], given[rank], np.maximum)

    ring.each(reduce)
    for array in given:
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("items", ITEMS)
def test_all_gather_leaves_every_rank_s_row_everywhere(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    for output in results(ring, algorithms.all_gather, given, ring.size, items):
        np.testing.assert_array_equal(output, given)


@pytest.mark.parametrize("items", ITEMS)
def test_rows_go_to_their_ranks_summed_or_as_they_are(ring, items):
    given = [of_rank(rank, ring.size, items) for rank in range(ring.size)]
    sums = results(ring, algorithms.reduce_scatter, given, items, more=[np.add])
    columns = results(ring, algorithms.all_to_all, given, ring.size, items)
    for rank in range(ring.size):
        np.testing.assert_array_equal(sums[rank], sum(given)[rank])
        np.testing.assert_array_equal(columns[rank], [rows[rank] for rows in given])


@pytest.mark.parametrize("items", ITEMS)
def test_from_and_to_each_root(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    rows = of_rank(7, ring.size, items)
    for root in range(ring.size):
        sums = results(ring, algorithms.reduce, given, items, more=[root, np.add])
        np.testing.assert_array_equal(sums[root], sum(given))
        at_root = [rows if rank == root else None for rank in range(ring.size)]
        found = results(ring, algorithms.scatter, at_root, items, more=[root])
        np.testing.assert_array_equal(found, rows)
        copies = [array.copy() for array in given]
        gathered = np.full((ring.size, items), -1, "<i8")

        def move(transport, call, rank, root=root, copies=copies, gathered=gathered):
            transport.run(call, algorithms.broadcast, copies[rank], root)
            output = gathered if rank == root else None
            transport.run(call, algorithms.gather, given[rank], output, root)

        ring.each(move)
        np.testing.assert_array_equal(copies, [given[root]] * ring.size)
        np.testing.assert_array_equal(gathered, given)


@pytest.fixture
def traffic(monkeypatch):
    """Bytes that ranks announce, by sender and receiver."""
    sent = Counter()
    begin = Flow.open

    def counted(flow, peer, payload_bytes, *more):
        sent[flow.rank, peer] += payload_bytes
        begin(flow, peer, payload_bytes, *more)

    monkeypatch.setattr(Flow, "open", counted)
    return sent


def test_nothing_is_sent_more_often_than_it_has_to_be(ring, way, traffic):
    items, others = 5 * ring.size, ring.size - 1
    given = [of_rank(rank, items) for rank in range(ring.size)]
    nbytes = given[0].nbytes
    all_pairs = set(permutations(range(ring.size), 2))
    neighbours = {(rank, (rank + 1) % ring.size) for rank in range(ring.size) if ring.size > 1}
    pairs = all_pairs if way == "direct" else neighbours

    results(ring, algorithms.all_reduce, given, items, more=[np.add])
    assert set(traffic) == pairs
    whole_arrays = others * ring.size if way == "direct" else 2 * others
    assert traffic.total() == whole_arrays * nbytes

    traffic.clear()
    results(ring, algorithms.all_gather, given, ring.size, items)
    assert set(traffic) == pairs
    assert traffic.total() == others * ring.size * nbytes

    traffic.clear()
    rows = [array.reshape(ring.size, -1) for array in given]
    results(ring, algorithms.reduce_scatter, rows, 5, more=[np.add])
    assert set(traffic) == neighbours
    assert traffic.total() == others * nbytes
