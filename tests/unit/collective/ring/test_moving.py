"""What each collective leaves on each rank, over real connections between threads of one process."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, permutations

import numpy as np
import pytest

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.ring import algorithms
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.flow import Flow
from jupyter_dist.collective.ring.memory import algorithms as memory_algorithms
from jupyter_dist.collective.ring.memory import room
from jupyter_dist.collective.ring.transport import RingTransport

ITEMS = (0, 1, 5, 24)
"""Elements: none, fewer than ranks, not divisible by them, divisible."""


class Ring:
    """Ranks that take part in one operation after the other, on hosts of their own or on one."""

    def __init__(self, size, hosts):
        self.size = size
        listeners = [bind_listener(f"127.0.0.{1 + rank % hosts}") for rank in range(size)]
        peers = [address_of(listener) for listener in listeners]
        self._ranks = [
            RingTransport(Group(rank, size, 1), listener, peers, b"secret")
            for rank, listener in enumerate(listeners)
        ]
        self._threads = ThreadPoolExecutor(size)
        self._numbers = count()

    def each(self, operation, act):
        """Let each rank do `act(move, rank)`, where move takes arrays; give what it returns."""
        call = Call(Signature(operation, "<i8"), next(self._numbers))

        def run(rank):
            transport = self._ranks[rank]
            transport.enter(5.0, "")
            try:
                return act(partial(transport.run, call), rank)
            except BaseException:
                for other in self._ranks:
                    other.abort(Breakage("left", rank, "has failed"))
                raise

        return list(self._threads.map(run, range(self.size)))

    def call_alone(self, operation, rank):
        """Let a rank make its first or second call, as it has it; return how that broke."""
        transport = self._ranks[rank]
        transport.enter(5.0, "")
        given = () if operation == "barrier" else (np.ones(3), np.ones(3), np.add)
        with pytest.raises(Broken) as stop:
            transport.run(Call(Signature(operation, "<f8"), 7), *given)
        return stop.value

    def close(self):
        for transport in self._ranks:
            transport.close()
        self._threads.shutdown()


WAYS = ["direct", "tree", "ring", "ring in pieces", "memory", "memory in pieces"]
WAYS += ["two hosts", "two hosts in pieces"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """All ways are taken by arrays of few elements."""
    if request.param == "tree":
        monkeypatch.setattr(algorithms, "DIRECT_RANKS", 0)
    if request.param.startswith("ring"):
        monkeypatch.setattr(algorithms, "SMALL_BYTES", -1)
    if request.param == "ring in pieces":
        monkeypatch.setattr(algorithms, "PIECE_BYTES", 16)  # two elements
    if request.param in ("memory in pieces", "two hosts in pieces"):
        monkeypatch.setattr(memory_algorithms, "TOGETHER_BYTES", -1)
        monkeypatch.setattr(room, "SLOT_BYTES", 96)  # two elements for each of five, and a result
    return request.param


@pytest.fixture(params=[1, 2, 3, 5])
def ring(request, way):
    hosts = {"memory": 1, "two hosts": 2}.get(way.removesuffix(" in pieces"), request.param)
    made = Ring(request.param, hosts)
    yield made
    made.close()


@pytest.fixture(params=range(1, 18))
def crowd(request, monkeypatch):
    """Any number of ranks up to one more than reach each other directly; small arrays go by tree."""
    monkeypatch.setattr(algorithms, "DIRECT_RANKS", 0)
    made = Ring(request.param, hosts=request.param)
    yield made
    made.close()


def of_rank(rank, *shape):
    """Make an array whose elements differ, also from those of other ranks."""
    return np.arange(np.prod(shape), dtype="<i8").reshape(shape) + 1000 * (rank + 1)


def results(ring, operation, given, *shape, more=()):
    """Let an operation move what each rank has; give what it leaves in room of this shape."""

    def run(move, rank):
        output = np.full(shape, -1, "<i8")
        move(given[rank], output, *more)
        return output

    return ring.each(operation, run)


@pytest.mark.parametrize("items", ITEMS)
def test_all_reduce_leaves_the_sum_everywhere(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    for output in results(ring, "all_reduce", given, items, more=[np.add]):
        np.testing.assert_array_equal(output, sum(given))
    for rank, array in enumerate(given):
        np.testing.assert_array_equal(array, of_rank(rank, items))


@pytest.mark.parametrize("items", ITEMS)
def test_all_reduce_in_place(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    wanted = np.max(given, axis=0)

    ring.each("all_reduce", lambda move, rank: move(given[rank], given[rank], np.maximum))
    for array in given:
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("items", ITEMS)
def test_all_gather_leaves_every_rank_s_row_everywhere(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    for output in results(ring, "all_gather", given, ring.size, items):
        np.testing.assert_array_equal(output, given)


@pytest.mark.parametrize("items", ITEMS)
def test_rows_go_to_their_ranks_summed_or_as_they_are(ring, items):
    given = [of_rank(rank, ring.size, items) for rank in range(ring.size)]
    sums = results(ring, "reduce_scatter", given, items, more=[np.add])
    columns = results(ring, "all_to_all", given, ring.size, items)
    for rank in range(ring.size):
        np.testing.assert_array_equal(sums[rank], sum(given)[rank])
        np.testing.assert_array_equal(columns[rank], [rows[rank] for rows in given])


@pytest.mark.parametrize("items", ITEMS)
def test_from_and_to_each_root(ring, items):
    given = [of_rank(rank, items) for rank in range(ring.size)]
    rows = of_rank(7, ring.size, items)
    for root in range(ring.size):
        sums = results(ring, "reduce", given, items, more=[root, np.add])
        np.testing.assert_array_equal(sums[root], sum(given))
        at_root = [rows if rank == root else None for rank in range(ring.size)]
        found = results(ring, "scatter", at_root, items, more=[root])
        np.testing.assert_array_equal(found, rows)
        copies = [array.copy() for array in given]
        gathered = np.full((ring.size, items), -1, "<i8")

        def copy(move, rank, root=root, copies=copies):
            move(copies[rank], root)

        def collect(move, rank, root=root, gathered=gathered):
            move(given[rank], gathered if rank == root else None, root)

        ring.each("broadcast", copy)
        ring.each("gather", collect)
        np.testing.assert_array_equal(copies, [given[root]] * ring.size)
        np.testing.assert_array_equal(gathered, given)


@pytest.fixture
def traffic(monkeypatch):
    """Bytes that ranks announce, by sender and receiver among those that take part."""
    sent = Counter()
    begin = Flow.open

    def counted(flow, peer, payload_bytes, *more):
        sent[flow.rank, peer] += payload_bytes
        begin(flow, peer, payload_bytes, *more)

    monkeypatch.setattr(Flow, "open", counted)
    return sent


def test_nothing_is_sent_more_often_than_it_has_to_be(ring, way, traffic):
    if way.startswith(("memory", "two hosts")):
        ring.each("barrier", lambda move, _rank: move())  # the ranks come to share memory
        traffic.clear()
    items, others = 5 * ring.size, ring.size - 1
    given = [of_rank(rank, items) for rank in range(ring.size)]
    nbytes = given[0].nbytes
    all_pairs = set(permutations(range(ring.size), 2))
    neighbours = {(rank, (rank + 1) % ring.size) for rank in range(ring.size) if ring.size > 1}
    trees = {3: {(0, 2), (2, 1)}, 5: {(0, 4), (2, 4), (4, 1), (4, 3)}}
    pairs = {"direct": all_pairs, "tree": neighbours | trees.get(ring.size, set())}.get(
        way, neighbours
    )

    if way.startswith("memory"):
        for operation in ("all_reduce", "reduce_scatter"):
            shape = () if operation == "all_reduce" else (ring.size,)
            rows = [of_rank(rank, *shape, items) for rank in range(ring.size)]
            results(ring, operation, rows, items, more=[np.add])
        assert ring.size == 1 or not traffic
        return
    if way.startswith("two hosts"):
        results(ring, "all_reduce", given, items, more=[np.add])
        # Between the two leaders alone; all greet their neighbours.
        assert {pair for pair, nbytes in traffic.items() if nbytes} == set(
            permutations(range(min(ring.size, 2)), 2)
        )
        assert traffic.total() == min(others, 1) * 2 * nbytes
        return

    results(ring, "all_reduce", given, items, more=[np.add])
    assert set(traffic) == pairs
    whole_arrays = others * ring.size if way == "direct" else 2 * others
    assert traffic.total() == whole_arrays * nbytes

    traffic.clear()
    results(ring, "all_gather", given, ring.size, items)
    assert set(traffic) == pairs
    if way != "tree":
        assert traffic.total() == others * ring.size * nbytes

    traffic.clear()
    rows = [array.reshape(ring.size, -1) for array in given]
    results(ring, "reduce_scatter", rows, 5, more=[np.add])
    assert set(traffic) == neighbours
    assert traffic.total() == others * nbytes


def follow(earlier, later, out):
    """Do one step `x -> a * x + b` after another; the order of steps matters, brackets do not."""
    out[:] = later[:1] * earlier + later * [0, 1]


def test_trees_keep_the_order_of_ranks_for_any_number_of_them(crowd):
    ranks = range(crowd.size)
    given = [np.array([3 + 2 * rank, rank + 1]) for rank in ranks]

    def in_order(first):
        total = given[first % crowd.size].copy()
        for rank in range(first + 1, first + crowd.size):
            follow(total.copy(), given[rank % crowd.size], total)
        return total

    for output in results(crowd, "all_reduce", given, 2, more=[follow]):
        np.testing.assert_array_equal(output, in_order(0))
    for root in ranks:
        outputs = results(crowd, "reduce", given, 2, more=[root, follow])
        np.testing.assert_array_equal(outputs[root], in_order(root + 1))


def test_trees_bring_rows_and_copies_for_any_number_of_ranks(crowd):
    given = [of_rank(rank, 3) for rank in range(crowd.size)]
    crowd.each("barrier", lambda move, _rank: move())
    for output in results(crowd, "all_gather", given, crowd.size, 3):
        np.testing.assert_array_equal(output, given)
    for root in range(crowd.size):
        copies = [array.copy() for array in given]
        gathered = np.full((crowd.size, 3), -1, "<i8")

        def copy(move, rank, root=root, copies=copies):
            move(copies[rank], root)

        def collect(move, rank, root=root, gathered=gathered):
            move(given[rank], gathered if rank == root else None, root)

        crowd.each("broadcast", copy)
        crowd.each("gather", collect)
        np.testing.assert_array_equal(copies, [given[root]] * crowd.size)
        np.testing.assert_array_equal(gathered, given)


def test_no_rank_is_connected_to_many(crowd, traffic):
    given = [of_rank(rank, 3) for rank in range(crowd.size)]
    crowd.each("barrier", lambda move, _rank: move())
    results(crowd, "all_reduce", given, 3, more=[np.add])
    results(crowd, "all_gather", given, crowd.size, 3)
    assert len(traffic) <= 3 * crowd.size
    distances = {(receiver - sender) % crowd.size for sender, receiver in traffic}
    assert distances <= {1, 2, 4, 8, 16}
    assert crowd.size == 1 or 1 in distances


@pytest.mark.parametrize(("hosts", "sums"), [(1, 5), (2, 6)])
def test_a_small_array_is_reduced_once_and_not_by_every_rank(hosts, sums):
    ring = Ring(6, hosts)
    done = []

    def add(first, second, out):
        done.append(out)
        np.add(first, second, out=out)

    given = [of_rank(rank, 3) for rank in range(6)]
    for output in results(ring, "all_reduce", given, 3, more=[add]):
        np.testing.assert_array_equal(output, sum(given))
    ring.close()
    assert len(done) == sums, "two leaders add the sums of both hosts"


@pytest.mark.parametrize("is_first", [True, False])
def test_all_ranks_of_a_host_see_alike_which_of_them_calls_something_else(is_first):
    ring = Ring(4, hosts=1)
    try:
        if not is_first:
            ring.each("barrier", lambda move, _rank: move())
        with ThreadPoolExecutor(4) as threads:
            errors = list(
                threads.map(
                    ring.call_alone, ["barrier", "barrier", "all_reduce", "barrier"], range(4)
                )
            )
    finally:
        ring.close()
    (breakage,) = {error.breakage for error in errors}
    assert (breakage.kind, breakage.ranks, breakage.peers) == ("mismatch", (2,), (0, 1, 3))
