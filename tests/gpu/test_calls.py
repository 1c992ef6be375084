"""Calls on real GPUs beyond the usual: where results go, on which streams, and how much."""

import pytest

from jupyter_dist.errors import UsageError

from .ranks_programs import SETUP, check, total

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

ROOM_BYTES = 64 << 30
"""Two ranks with two buffers of 6 GiB each, and what comparing them takes."""


# --- where results go ----------------------------------------------------------------------------


def test_results_go_beside_the_input_over_it_and_across_it(ranks):
    assert all(int(count) > 200 for count in ranks(2).values(check("gpu_outs.check")))


def test_memory_of_an_asynchronous_pool_is_as_good(ranks):
    two = ranks(2)
    two.values("import cupy\ncupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)")
    assert two.values(SETUP) == total(2)
    assert all(int(count) > 200 for count in two.values(check("gpu_outs.check")))


def test_counts_take_the_beginning_of_flat_buffers_and_tiles_lie_side_by_side(ranks):
    two = ranks(2)
    code = (
        "import cupy\n"
        "room, row = cupy.full(5, -1.0), cupy.full(3, -1.0)\n"
        "comm.all_gather(cupy.array([rank, -rank, 7.0]), room, count=2)\n"
        "comm.reduce_scatter(cupy.arange(6.0), out=row, count=2)\n"
        "tiled = comm.all_gather(cupy.full((2, 3), rank), tiled=True)\n"
        "room.tolist(), row.tolist(), tiled.shape, tiled[:, 0].tolist()"
    )
    assert two.values(code) == [
        f"([0.0, 0.0, 1.0, -1.0, -1.0], {row}, (4, 3), [0, 0, 1, 1])"
        for row in ([0.0, 2.0, -1.0], [4.0, 6.0, -1.0])
    ]


@pytest.mark.parametrize("stream", ["None", "cupy.cuda.Stream(non_blocking=True)"])
def test_sparse_matrices_are_what_scipy_computes(ranks, stream):
    pytest.importorskip("scipy")
    two = ranks(2)
    two.values(f"import cupy\ncomm.stream = {stream}")
    assert len(set(two.values(check("gpu_sparse.check")))) == 1


# --- streams -------------------------------------------------------------------------------------


def test_each_call_may_have_a_stream_of_its_own(two):
    code = (
        "streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]\n"
        "found = []\n"
        "for turn in range(60):\n"
        "    stream = streams[turn % 3]\n"
        "    with stream:\n        given = cupy.full(1 << 16, float(turn + rank))\n"
        "    result = comm.all_reduce(given, stream=stream)\n"
        "    with stream:\n        found.append((result != 2.0 * turn + 1).sum())\n"
        "cupy.cuda.Device().synchronize()\n"
        "comm.stream is None, int(sum(int(each) for each in found))"
    )
    assert two.values(code) == ["(True, 0)"] * 2


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_a_stream_for_each_thread_is_refused_or_right(ranks, blocking):
    # The stream of a thread is another one in the thread in which NCCL launches.
    two = ranks(2, NCCL_COMM_BLOCKING=blocking)
    two.values(SETUP)
    code = (
        "wrong = 0\n"
        "with cupy.cuda.Stream.ptds:\n"
        "    for turn in range(200):\n"
        "        given = cupy.full(1 << 18, float(turn + rank))\n"
        "        wrong += int((comm.all_reduce(given) != 2.0 * turn + 1).sum())\n"
        "wrong"
    )
    result = two.run(code)
    if result.ok:
        assert [rank.value_repr for rank in result] == ["0"] * 2
        return
    assert blocking == "0", "nothing stands against it where NCCL launches in the calling thread"
    names = {rank.error.ename for rank in result}
    assert UsageError.__name__ in names
    assert names <= {"UsageError", "PeerFailed"}
    assert two.values(SETUP) == total(2)


# --- how much ------------------------------------------------------------------------------------


def skip_without_room(made):
    """Skip where a GPU has not enough memory for large calls."""
    free = made.values("import cupy\ncupy.cuda.runtime.memGetInfo()[0]")
    if min(map(int, free)) < ROOM_BYTES:
        pytest.skip(f"a GPU has {free[0]} bytes free; {ROOM_BYTES} are needed")


def test_one_rank_moves_more_bytes_than_32_bits_count(ranks):
    one = ranks(1)
    skip_without_room(one)
    assert one.values(check("gpu_big.check_alone", "5 << 30")) == ["0"]


def test_two_ranks_exchange_more_bytes_than_32_bits_count(ranks):
    two = ranks(2)
    skip_without_room(two)
    assert two.values(check("gpu_big.check_between", "3 << 30")) == ["0"] * 2
