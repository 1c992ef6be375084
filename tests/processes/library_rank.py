"""The program that each rank of test_arrays_of_libraries.py runs: one scenario, as JSON lines."""

import functools
import operator
import warnings

import numpy as np
import pytest
import scipy.sparse
from ring_rank import run_rank as run_scenario
from ring_rank import say

from jupyter_dist.collective.calls.dtypes import EXTENSION_NAMES, find_dtype
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.errors import CollectiveMismatch, UsageError

warnings.simplefilter("error")
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


# --- arrays of numpy, torch and JAX ----------------------------------------------------------


class Torch:
    """How arrays are made and read in torch."""

    names = ("bool", "uint8", "int64", "float16", "float32", "complex64", *EXTENSION_NAMES)

    def __init__(self):
        import torch

        self.torch = torch

    def make(self, array):
        if array.dtype.name not in EXTENSION_NAMES:
            return self.torch.from_numpy(array.copy())
        integers = array.view(f"i{array.itemsize}").copy()
        return self.torch.from_numpy(integers).view(getattr(self.torch, array.dtype.name))

    def read(self, given):
        assert type(given) is self.torch.Tensor
        name = str(given.dtype).removeprefix("torch.")
        if name not in EXTENSION_NAMES:
            return given.numpy()
        integers = self.torch.int16 if given.element_size() == 2 else self.torch.uint8
        return given.view(integers).numpy().view(find_dtype(name))


class Jax:
    """How arrays are made and read in JAX."""

    names = ("bool", "uint8", "int32", "float16", "float32", "complex64", *EXTENSION_NAMES)

    def __init__(self):
        import jax

        self.jax = jax

    def make(self, array):
        return self.jax.numpy.asarray(array)

    def read(self, given):
        assert isinstance(given, self.jax.Array)
        return np.asarray(given)


class Numpy:
    """How arrays are made and read in numpy, where small floats are concerned."""

    names = ("float16", ">f4", ">i2", *EXTENSION_NAMES)

    def make(self, array):
        return array.copy()

    def read(self, given):
        assert isinstance(given, np.ndarray)
        return given


def same(found, expected, what):
    assert found.dtype == expected.dtype, what
    assert found.shape == expected.shape, what
    # Of a NaN only that it is one is agreed on.
    np.testing.assert_array_equal(*(each.astype(np.complex128) for each in (found, expected)), what)


def stack_of(inputs):
    stack = np.empty((len(inputs), *inputs[0].shape), inputs[0].dtype)
    for rank, array in enumerate(inputs):
        stack[rank] = array
    return stack


def check_library(comm, library, name, shape):
    dtype = find_dtype(name)
    rng = np.random.default_rng(5)
    inputs = [rng.integers(0, 3, shape).astype(dtype) for _rank in range(comm.size)]
    if dtype.kind == "f":
        inputs[0].reshape(-1)[:1] = np.nan
    mine, stack = library.make(inputs[comm.rank]), stack_of(inputs)
    ops = {k: v for k, v in UFUNCS.items() if dtype.kind != "c" or k in ("sum", "prod")}
    for op, ufunc in ops.items():
        with np.errstate(invalid="ignore"):
            expected = np.asarray(functools.reduce(ufunc, inputs), dtype)
        same(library.read(comm.all_reduce(mine, op)), expected, (name, op))
        reduced = comm.reduce(mine, comm.size - 1, op)
        assert (reduced is None) == (comm.rank != comm.size - 1)
        if reduced is not None:
            same(library.read(reduced), expected, (name, op))
        rows = library.make(stack_of([inputs[comm.rank]] * comm.size))
        same(library.read(comm.reduce_scatter(rows, op)), expected, (name, op))
    if dtype.kind not in "biu":
        expected = np.asarray(functools.reduce(np.add, inputs), dtype)
        wide = np.complex128 if dtype.kind == "c" else np.float64
        average = np.asarray(expected.astype(wide) / comm.size, dtype)
        same(library.read(comm.all_reduce(mine, "avg")), average, (name, "avg"))
    same(library.read(comm.all_gather(mine)), stack, name)
    same(library.read(comm.broadcast(mine, comm.size - 1)), inputs[-1], name)
    gathered = comm.gather(mine)
    if comm.rank == 0:
        same(library.read(gathered), stack, name)
    scattered = comm.scatter(library.make(stack) if comm.rank == 0 else mine)
    same(library.read(scattered), inputs[comm.rank], name)
    swapped = comm.all_to_all(library.make(stack))
    same(library.read(swapped), stack_of([inputs[comm.rank]] * comm.size), name)
    following, previous = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    same(library.read(comm.send_recv(mine, following, mine, previous)), inputs[previous], name)


def arrays(comm, which):
    library = {"torch": Torch, "jax": Jax, "numpy": Numpy}[which]()
    for name in library.names:
        # Directly to everybody, and round the ring.
        for shape in ((), (0,), (3, 5), (20011,)):
            check_library(comm, library, name, shape)
    {"torch": torch_ways, "jax": jax_ways, "numpy": lambda _comm: None}[which](comm)
    say(done=True)


def torch_ways(comm):
    import torch

    out = torch.empty(4, dtype=torch.bfloat16)
    assert comm.all_reduce(torch.ones(4, dtype=torch.bfloat16), out=out) is out
    assert out.tolist() == [comm.size] * 4
    watched = torch.ones(3, requires_grad=True)
    assert not comm.all_reduce(watched).requires_grad
    with pytest.raises(UsageError, match=r"x\.detach\(\)"):
        comm.all_reduce(watched, out=watched)
    comm.all_reduce(watched, out=watched.detach())
    assert watched.tolist() == [comm.size] * 3
    strided = torch.arange(6.0).reshape(2, 3).T
    assert torch.equal(comm.broadcast(strided), strided)
    if comm.size > 1:
        room = torch.zeros(2, dtype=torch.float8_e5m2)
        with comm.group():
            later = comm.all_reduce(torch.ones(2))
            if comm.rank == 0:
                comm.send(torch.ones(2).to(torch.float8_e5m2), 1)
            elif comm.rank == 1:
                comm.recv(room, 0)
        assert later.tolist() == [comm.size] * 2
        assert room.float().tolist() == [comm.rank == 1] * 2


def jax_ways(comm):
    import jax

    given = jax.numpy.ones(3)
    assert given.dtype == "float32", "this test is about JAX as it comes"
    assert comm.all_reduce(given).dtype == "float32"
    with pytest.raises(TypeError, match="JAX"):
        comm.all_reduce(given, out=given)
    with comm.group(), pytest.raises(UsageError, match="JAX"):
        comm.all_reduce(given)
    with jax.enable_x64(True):
        exact = comm.all_reduce(jax.numpy.asarray(2**40 + 1))
        assert (exact.dtype, int(exact)) == ("int64", comm.size * (2**40 + 1))


# --- sparse matrices -------------------------------------------------------------------------


def matrix(rank, form, dtype="float64", shape=(40, 30), style="array"):
    """Give each rank another number of nonzeros, and coo some places twice."""
    rng = np.random.default_rng(rank)
    count = 7 * rank
    places = tuple(rng.integers(0, side, count) for side in shape)
    if count:
        places = tuple(np.append(each, each[:3]) for each in places)
    data = rng.integers(-3, 4, places[0].size).astype(dtype)
    return getattr(scipy.sparse, f"coo_{style}")((data, places), shape=shape).asformat(form)


def same_matrix(found, expected, like):
    assert type(found) is type(like), (type(found), type(like))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


def computed(matrices, op):
    """Reduce on one machine, as scipy does."""
    if op == "sum":
        return functools.reduce(lambda one, other: one + other, matrices)
    return functools.reduce(operator.mul, (each.tocsr() for each in matrices))


def check_sparse(comm, form, dtype, style):
    size = comm.size
    shape = (40, 40) if style == "matrix" else (40, 30)
    every = [matrix(rank, form, dtype, shape, style) for rank in range(size)]
    mine, before = every[comm.rank], every[comm.rank].copy()
    for op in ("sum", "prod"):
        expected = computed(every, op).astype(dtype)
        same_matrix(comm.all_reduce(mine, op), expected, mine)
        reduced = comm.reduce(mine, size - 1, op)
        if comm.rank == size - 1:
            same_matrix(reduced, expected, mine)
        else:
            assert reduced is None
        grid = [
            [matrix(r + 3 * i, form, dtype, (4 + i, 4 + i), style) for i in range(size)]
            for r in range(size)
        ]
        expected = computed([row[comm.rank] for row in grid], op).astype(dtype)
        same_matrix(comm.reduce_scatter(grid[comm.rank], op), expected, mine)
    check_moves(comm, every, mine)
    same_matrix(mine, before, before)


def check_moves(comm, every, mine):
    size = comm.size
    for found, expected in zip(comm.all_gather(mine), every, strict=True):
        same_matrix(found, expected, mine)
    for root in range(size):
        same_matrix(comm.broadcast(mine, root), every[root], mine)
        gathered = comm.gather(mine, root)
        if comm.rank == root:
            for found, expected in zip(gathered, every, strict=True):
                same_matrix(found, expected, mine)
        else:
            assert gathered is None
        same_matrix(comm.scatter(every if comm.rank == root else mine, root), mine, mine)
    swapped = comm.all_to_all([mine] * size)
    for found, expected in zip(swapped, every, strict=True):
        same_matrix(found, expected, mine)
    following, previous = (comm.rank + 1) % size, (comm.rank - 1) % size
    template = type(mine)((1, 1))
    same_matrix(comm.send_recv(mine, following, template, previous), every[previous], mine)
    if size > 1 and comm.rank == 0:
        comm.send(mine, 1)
    elif comm.rank == 1:
        same_matrix(comm.recv(template, 0), every[0], mine)
    check_outs(comm, every, mine)


def check_outs(comm, every, mine):
    """Results in matrices of the caller, of another size and format."""
    out = scipy.sparse.csc_matrix(np.ones((3, 7)))
    assert comm.all_reduce(mine, out=out) is out
    assert (type(out), out.dtype) == (scipy.sparse.csc_matrix, mine.dtype)
    np.testing.assert_array_equal(out.toarray(), computed(every, "sum").astype(out.dtype).toarray())
    outs = []
    assert comm.all_gather(mine, out=outs) is outs
    again = [out, *outs[1:]]
    comm.all_gather(mine, out=again)
    assert again[0] is out
    for found, filled, expected in zip(outs, again, every, strict=True):
        same_matrix(found, expected, mine)
        np.testing.assert_array_equal(filled.toarray(), expected.toarray())


def check_formats(comm):
    """Formats may differ; each rank gets its own. Shapes and types may too, where nothing is added."""
    form = ("coo", "csr", "csc")[comm.rank % 3]
    shapes = [(rank, 3) for rank in range(comm.size)]
    mine = matrix(comm.rank, form, ("float32", "complex128")[comm.rank % 2], (40, comm.rank + 1))
    for rank, found in enumerate(comm.all_gather(mine)):
        expected = matrix(rank, "coo", ("float32", "complex128")[rank % 2], (40, rank + 1))
        assert found.format == form
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.toarray(), expected.toarray())
    empty = scipy.sparse.csr_matrix(shapes[comm.rank], dtype="int8")
    assert [each.shape for each in comm.all_gather(empty)] == shapes


def refused(kind, call, *words):
    with pytest.raises(kind) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def check_refusals(comm):
    """Refused on all ranks alike, so that the next call still works."""
    mine = matrix(1, "csr", shape=(4, 3 + (comm.rank == 1)))
    if comm.size > 1:
        refused(UsageError, lambda: comm.all_reduce(mine), "rank 1: float64 (4, 4)", "same dtype")
        call = functools.partial(comm.gather if comm.rank == 1 else comm.reduce, mine)
        refused(CollectiveMismatch, call, "gather(sparse, root=0)", "reduce(sparse, sum, root=0)")
        style = scipy.sparse.csr_matrix if comm.rank == 1 else scipy.sparse.csr_array
        call = functools.partial(comm.all_reduce, style(np.eye(2)), "prod")
        refused(CollectiveMismatch, call, "all_reduce(sparse, prod)", "prod of")
    refused(UsageError, lambda: comm.all_reduce(mine, "max"), "'sum', 'prod'")
    refused(UsageError, lambda: comm.all_reduce(mine, out=np.ones(3)), "an out of numpy.ndarray")
    refused(UsageError, lambda: comm.all_to_all([mine] * (comm.size + 1)), "one matrix")
    refused(UsageError, lambda: comm.all_gather(mine.todok()), "x.tocsr()")
    with comm.group():
        refused(UsageError, lambda: comm.all_gather(mine), "outside")
    assert len(comm.all_gather(mine)) == comm.size


def sparse(comm):
    for form in ("coo", "csr", "csc"):
        for dtype in ("bool", "int8", "uint64", "float32", "float64", "complex64"):
            check_sparse(comm, form, dtype, "array")
        check_sparse(comm, form, "float64", "matrix")
    check_formats(comm)
    check_refusals(comm)
    # Matrices in host memory take the same way where there are GPUs.
    check_sparse(NcclCommunicator(comm), "csr", "float32", "array")
    say(done=True)


run_rank = functools.partial(run_scenario, scenarios=globals())
