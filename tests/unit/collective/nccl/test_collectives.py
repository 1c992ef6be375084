"""Every operation on every type and number of ranks, against numpy."""

import time

import ml_dtypes
import numpy as np
import pytest
from fakes.control import every
from fakes.gpus import alone, on_gpus
from fakes.nccl_device import PER_THREAD

from jupyter_dist.collective.calls.call import UFUNCS
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.axes import lay_out

SIZES = (1, 2, 3, 4)
PLAIN = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
SMALL = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
COMPLEX = ("c8", "c16")
DTYPES = [np.dtype(kind) for kind in (*PLAIN, *SMALL, *COMPLEX)]
SHAPES = ((), (5,), (3, 4), (0,), (2, 0))
WAYS = ("nccl4py", "cupy")


def values(rank, shape, dtype):
    """Small whole numbers: exact in every type, and different on each rank."""
    found = np.random.default_rng(rank).integers(1, 3, size=shape)
    return np.asarray(found, dtype) if dtype != np.bool_ else np.asarray(found > 1)


def reduced(arrays, op):
    """As numpy reduces, keeping the type."""
    if arrays[0].dtype.kind == "c":
        parts = [reduced([getattr(each, part) for each in arrays], op) for part in ("real", "imag")]
        return np.asarray(parts[0] + 1j * parts[1], arrays[0].dtype)
    total = arrays[0]
    for array in arrays[1:]:
        total = UFUNCS[op](total, array).astype(total.dtype)
    if op == "avg":
        total = (total / np.asarray(len(arrays), total.dtype)).astype(total.dtype)
    return total


def same(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.get(), expected)


def ops_for(dtype):
    if dtype.kind == "c":
        return ("sum", "avg")
    return ("sum", "prod", "min", "max") if dtype.kind in "biu" else tuple(UFUNCS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_reductions_are_those_of_numpy(size, dtype):
    def check(comm, cupy):
        for shape in SHAPES:
            inputs = [values(rank, shape, dtype) for rank in range(size)]
            rows = np.stack([np.stack(inputs)] * size)
            for op in ops_for(dtype):
                mine = cupy.asarray(inputs[comm.rank])
                expected = reduced(inputs, op)
                same(comm.all_reduce(mine, op), expected)
                out = cupy.asarray(np.zeros_like(expected))
                assert comm.all_reduce(mine, op, out=out) is out
                same(out, expected)
                same(mine, inputs[comm.rank])
                last = comm.reduce(mine, size - 1, op)
                assert (last is None) == (comm.rank != size - 1)
                if last is not None:
                    same(last, expected)
                row = comm.reduce_scatter(cupy.asarray(rows[comm.rank]), op)
                same(row, reduced([rows[0][comm.rank]] * size, op))
                assert comm.all_reduce(mine, op, out=mine) is mine
                same(mine, expected)
        return True

    assert every(on_gpus(size, check))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_arrays_move_unchanged(size, dtype):
    def check(comm, cupy):
        rank = comm.rank
        for shape in SHAPES:
            inputs = [values(rank, shape, dtype) for rank in range(size)]
            stack = np.stack(inputs)
            mine = cupy.asarray(inputs[rank])
            same(comm.all_gather(mine), stack)
            squares = [
                np.stack([values(i * size + j, shape, dtype) for j in range(size)])
                for i in range(size)
            ]
            turned = np.stack([squares[other][rank] for other in range(size)])
            same(comm.all_to_all(cupy.asarray(squares[rank])), turned)
            for root in range(size):
                same(comm.broadcast(mine, root), inputs[root])
                gathered = comm.gather(mine, root)
                assert (gathered is None) == (rank != root)
                if rank == root:
                    same(gathered, stack)
                given = cupy.asarray(stack) if rank == root else mine
                same(comm.scatter(given, root), inputs[rank])
        return True

    assert every(on_gpus(size, check))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 3])
def test_results_go_into_out(size, way):
    def check(comm, cupy):
        rank = comm.rank
        mine = np.full((2, 3), rank + 1.0)
        stack = np.stack([np.full((2, 3), other + 1.0) for other in range(size)])
        out = cupy.asarray(np.zeros_like(stack))
        assert comm.all_gather(cupy.asarray(mine), out=out) is out
        same(out, stack)
        assert comm.all_to_all(cupy.asarray(stack), out=out) is out
        same(out, np.stack([stack[rank]] * size))
        row = cupy.asarray(np.zeros_like(mine))
        assert comm.reduce_scatter(cupy.asarray(stack), out=row) is row
        same(row, stack[rank] * size)
        assert comm.broadcast(cupy.asarray(mine), size - 1, out=row) is row
        same(row, stack[-1])
        assert comm.scatter(cupy.asarray(stack) if rank == 0 else None, out=row) is row
        same(row, stack[rank])
        if rank == 0:
            assert comm.gather(cupy.asarray(mine), out=out) is out
            assert comm.reduce(cupy.asarray(mine), out=row) is row
            same(out, stack)
            same(row, stack.sum(axis=0))
        else:
            assert comm.gather(cupy.asarray(mine)) is None
            assert comm.reduce(cupy.asarray(mine)) is None
        return True

    assert every(on_gpus(size, check, way=way))


def test_a_result_that_lies_over_the_input_is_right_all_the_same():
    def check(comm, cupy):
        size, rank = comm.size, comm.rank
        start = np.arange(size * 4.0).reshape(size, 4)
        stack = cupy.asarray(start + rank)
        comm.all_to_all(stack, out=stack)
        same(stack, np.stack([start[rank] + other for other in range(size)]))
        stack = cupy.asarray(start + rank)
        comm.all_gather(stack[0], out=stack)
        same(stack, np.stack([start[0] + other for other in range(size)]))
        stack = cupy.asarray(start + rank)
        comm.reduce_scatter(stack, out=stack[1])
        same(stack[1], (start[rank] * size + sum(range(size))))
        stack = cupy.asarray(start + rank)
        comm.scatter(stack if rank == 0 else None, 0, out=stack[1])
        same(stack[1], start[rank])
        return True

    assert every(on_gpus(3, check))


def test_input_that_is_not_contiguous_is_taken():
    def check(comm, cupy):
        for dtype in map(np.dtype, ("f4", *SMALL)):
            mine = np.asarray(np.arange(6).reshape(2, 3) % 3, dtype)
            same(comm.all_gather(cupy.asarray(mine).T)[1], mine.T)
        return True

    assert every(on_gpus(2, check))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype(ml_dtypes.bfloat16), np.dtype("i2")])
def test_an_out_may_be_flat_or_in_the_order_of_fortran(size, dtype):
    def check(comm, cupy):
        inputs = [values(rank, (3, 4), dtype) for rank in range(size)]
        stack = np.stack(inputs)
        mine = cupy.asarray(inputs[comm.rank])
        for call, expected in (
            (lambda out: comm.all_reduce(mine, out=out), reduced(inputs, "sum")),
            (lambda out: comm.all_gather(mine, out=out), stack),
            (lambda out: comm.broadcast(mine, size - 1, out=out), inputs[-1]),
            (lambda out: comm.all_to_all(cupy.asarray(stack), out=out), stack[[comm.rank] * size]),
        ):
            flat = cupy.asarray(np.zeros(expected.size, dtype))
            assert call(flat) is flat
            same(flat, expected.ravel())
            turned = cupy.asarray(np.zeros(expected.shape[::-1], dtype)).T
            assert call(turned) is turned
            same(turned, expected)
        return True

    assert every(on_gpus(size, check))


@pytest.mark.parametrize("size", SIZES)
def test_tiles_lie_side_by_side_and_counts_take_the_beginning(size):
    def check(comm, cupy):
        inputs = [values(rank, (2, 3), np.dtype("f4")) for rank in range(size)]
        mine = cupy.asarray(inputs[comm.rank])
        same(comm.all_gather(mine, tiled=True), np.concatenate(inputs))
        same(comm.all_gather(mine), np.stack(inputs))
        buffer = np.arange(2 * size + 1, dtype="i8") + comm.rank
        output = cupy.asarray(np.full(2 * size + 1, -1))
        assert comm.all_gather(cupy.asarray(buffer), output, count=2) is output
        same(output, np.array([*(each for rank in range(size) for each in (rank, rank + 1)), -1]))
        row = comm.reduce_scatter(cupy.asarray(buffer), count=2)
        at = 2 * comm.rank
        expected = np.arange(at, at + 2) * size + sum(range(size))
        same(row, expected)
        return True

    assert every(on_gpus(size, check))


@pytest.mark.parametrize("way", WAYS)
def test_messages_arrive_in_order(way):
    def check(comm, cupy):
        rank, size = comm.rank, comm.size
        after, before = (rank + 1) % size, (rank - 1) % size
        halo = comm.send_recv(
            cupy.asarray(np.full(4, rank)), after, cupy.asarray(np.zeros(4, int)), before
        )
        same(halo, np.full(4, before))
        if rank == 0:
            for number in range(3):
                comm.send(cupy.asarray(np.asarray(number)), 1)
        if rank == 1:
            for number in range(3):
                same(comm.recv(cupy.asarray(np.asarray(-1)), 0), np.asarray(number))
        filled = cupy.asarray(np.zeros((2, 3))).T
        assert comm.send_recv(cupy.asarray(np.full((3, 2), 7.0)), rank, filled, rank) is filled
        same(filled, np.full((3, 2), 7.0))
        comm.send(cupy.asarray(np.zeros(0)), after)
        comm.recv(cupy.asarray(np.zeros(0)), before)
        return True

    assert every(on_gpus(3, check, way=way))


@pytest.mark.parametrize("way", WAYS)
def test_in_a_group_no_order_of_messages_hangs(way):
    def check(comm, cupy):
        rank, size = comm.rank, comm.size
        others = [other for other in range(size) if other != rank]
        rooms = {other: cupy.asarray(np.zeros(2)) for other in others}
        total = cupy.asarray(np.zeros(2))
        with comm.group():
            for other in others:
                comm.send(cupy.asarray(np.full(2, 10.0 * rank + other)), other)
            first = comm.all_reduce(cupy.asarray(np.ones(2)), out=total)
            second = comm.all_gather(total)
            for other in others:
                comm.recv(rooms[other], other)
            host = comm.all_reduce(np.ones(2))
        for other in others:
            same(rooms[other], np.full(2, 10.0 * other + rank))
        same(first, np.full(2, float(size)))
        same(second, np.full((size, 2), float(size)))
        np.testing.assert_array_equal(host, np.full(2, float(size)))
        return True

    assert every(on_gpus(3, check, way=way))


def test_groups_of_ranks_have_a_communicator_of_their_own():
    def check(comm, cupy):
        child = comm.split(comm.rank % 2, -comm.rank)
        same(
            child.all_gather(cupy.asarray(np.asarray(comm.rank))),
            np.asarray(sorted(range(comm.rank % 2, 4, 2), reverse=True)),
        )
        same(comm.all_reduce(cupy.asarray(np.ones(1))), np.full(1, 4.0))
        assert comm.split(None if comm.rank else 0) is None or comm.rank == 0
        return repr(child)

    found = on_gpus(4, check)
    assert found[3] == "<nccl communicator: group 1,3, rank 0 of 2>"


def test_an_axis_has_a_communicator_for_arrays_on_devices_too():
    def check(comm, cupy):
        comm.take_axes(lay_out([("data", 2), ("model", 2)], 4))
        along = comm.axis("model")
        assert comm.axis("model") is along
        same(
            along.all_reduce(cupy.asarray(np.full(1, comm.rank))),
            np.full(1, 1 + comm.rank // 2 * 4),
        )
        return repr(along)

    found = on_gpus(4, check)
    assert found[3] == "<nccl communicator: group 2-3, rank 1 of 2>"


def test_sparse_matrices_travel_as_arrays():
    sparse = pytest.importorskip("scipy.sparse")

    def check(comm, cupy):
        mine = sparse.csr_matrix(np.eye(3) * (comm.rank + 1))
        return comm.all_reduce(mine).toarray().tolist()

    assert every(on_gpus(1, check)) == np.eye(3).tolist()


def test_host_memory_goes_the_way_of_the_host_and_loads_nothing():
    def check(comm, cupy):
        assert comm.all_reduce(comm.rank) == 3
        np.testing.assert_array_equal(comm.all_gather(np.ones(2)), np.ones((3, 2)))
        comm.barrier()
        return comm.kind

    assert every(on_gpus(3, check)) == "nccl"


@pytest.mark.parametrize("way", WAYS)
def test_the_stream_of_a_thread_is_kept_in_order(way):
    def check(comm, cupy):
        x = cupy.asarray(np.zeros(4))
        with cupy.find_stream(PER_THREAD) as stream:
            for number in range(5):
                stream.put(lambda: time.sleep(0.02))
                stream.put(lambda number=number: x.host.fill(number))  # late, before the call
                found = comm.all_reduce(x)
                output = cupy.empty(4)
                comm.send_recv(
                    found, (comm.rank + 1) % comm.size, output, (comm.rank - 1) % comm.size
                )
                same(
                    comm.all_reduce(cupy.asarray(np.ones((2, 2), "i2")).T), np.full((2, 2), 2, "i2")
                )
                same(found, np.full(4, float(number * comm.size)))
                same(output, np.full(4, float(number * comm.size)))
        return True

    assert every(on_gpus(2, check, way=way))


def test_the_stream_of_a_thread_may_be_captured():
    with alone() as (comm, machine):
        x = machine.cupy.asarray(np.ones(1))
        with machine.cupy.find_stream(PER_THREAD) as stream:
            stream.is_capturing = True
            with pytest.raises(UsageError, match="captured"):
                comm.all_reduce(x)
