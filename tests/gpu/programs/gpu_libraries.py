"""Checks arrays of torch and JAX against numpy, on a GPU or, in a rehearsal, on the CPU."""

import time

import numpy as np
from gpu_arrays import EXTENSIONS, ON_DEVICE, ops_for, reduced, values

from jupyter_dist.errors import UsageError

NAMES = ["bool", "uint8", "int16", "int32", "float16", "float32", "complex64"]
WIDE = ["int64", "float64", "complex128"]


# --- torch ---------------------------------------------------------------------------------------


def torch_device():
    """Say where tensors of these checks lie."""
    return "cuda" if ON_DEVICE else "cpu"


def to_torch(array):
    """Make a tensor of it, where tensors of these checks lie."""
    import torch

    if array.dtype not in EXTENSIONS:
        return torch.from_numpy(array.copy()).to(torch_device())
    integers = torch.from_numpy(array.view(f"i{array.itemsize}").copy())
    return integers.to(torch_device()).view(getattr(torch, array.dtype.name))


def from_torch(tensor):
    """Read a tensor as numpy has it."""
    import torch

    name = str(tensor.dtype).removeprefix("torch.")
    for dtype in EXTENSIONS:
        if dtype.name == name:
            integers = torch.int16 if dtype.itemsize == 2 else torch.uint8
            return tensor.contiguous().view(integers).cpu().numpy().view(dtype)
    return tensor.cpu().numpy()


def check_torch(comm):
    """Every type that torch has, views with other strides, and what autograd watches."""
    import torch

    dtypes = [*map(np.dtype, [*NAMES, *WIDE]), *EXTENSIONS]
    count = check_types(comm, dtypes, to_torch, from_torch)
    grid = [values(rank, (4, 6), np.dtype("f4")) for rank in range(comm.size)]
    mine = to_torch(grid[comm.rank])
    for view, host in (
        (mine.T, [each.T for each in grid]),
        (mine[:, ::2], [each[:, ::2] for each in grid]),
        (mine[1:3, 1:], [each[1:3, 1:] for each in grid]),
    ):
        assert not view.is_contiguous()
        np.testing.assert_array_equal(from_torch(comm.all_reduce(view)), reduced(host, "sum"))
        np.testing.assert_array_equal(from_torch(comm.all_gather(view)), np.stack(host))
        count += 2
    watched = torch.ones(4, device=torch_device(), requires_grad=True)
    assert not comm.all_reduce(watched).requires_grad
    try:
        comm.all_reduce(watched, out=watched)
    except UsageError as error:
        assert "x.detach()" in str(error)  # noqa: PT017  (ranks have no pytest)
    else:
        raise AssertionError("autograd was not asked")
    comm.all_reduce(watched, out=watched.detach())
    assert watched.tolist() == [comm.size] * 4
    return count


def check_torch_stream(comm, rounds=500):
    """On a stream of its own, with memory that is freed and taken again all the time."""
    import torch

    stream = torch.cuda.Stream()
    bad = torch.zeros((), dtype=torch.int64, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for turn in range(rounds):
            given = torch.full((1 << 16,), float(turn + comm.rank), device="cuda")
            found = comm.all_reduce(given)
            del given
            noise = torch.full((1 << 16,), -1.0, device="cuda")
            expected = comm.size * turn + sum(range(comm.size))
            bad += (found != expected).sum()
            del found, noise
    stream.synchronize()
    return int(bad)


def check_torch_capture(comm, before_s, rounds=30, inside_s=0.12):
    """Graphs are captured this long after a call, which is looked after for some 0.1 s."""
    import torch

    given = torch.full((1024,), comm.rank + 1.0, device="cuda")
    comm.all_reduce(given * 2)
    bad = 0
    for _ in range(rounds):
        found = comm.all_reduce(given)
        time.sleep(before_s)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            double = given * 2
            time.sleep(inside_s)  # twice as long as the link thread takes between two looks
        graph.replay()
        torch.cuda.synchronize()
        bad += int((double != 2.0 * (comm.rank + 1)).sum())
        bad += int((found != comm.size * (comm.size + 1) / 2).sum())
    return bad


# --- JAX -----------------------------------------------------------------------------------------


def to_jax(array):
    """Make an array of JAX of it, on its first device."""
    import jax

    return jax.numpy.asarray(array)


def check_jax(comm):
    """Every type that JAX has without 64 bits, and parts of arrays."""
    import jax

    if ON_DEVICE:
        assert jax.default_backend() == "gpu"
    count = check_types(comm, [*map(np.dtype, NAMES), *EXTENSIONS], to_jax, np.asarray)
    whole = to_jax(values(comm.rank, (4, 6), np.dtype("f4")))
    host = [values(rank, (4, 6), np.dtype("f4"))[1:3, ::2].T for rank in range(comm.size)]
    found = comm.all_reduce(whole[1:3, ::2].T)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(np.asarray(found), reduced(host, "sum"))
    return count + 1


def check_jax_lifetime(comm, rounds=300, length=1 << 22):
    """Inputs go as soon as they were passed on, and JAX takes memory all the time."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def churn(array):
        return jnp.sin(array).sum() + jnp.cos(array * 2).sum()

    @jax.jit
    def count_wrong(array, expected):
        return (array != expected).sum()

    wrong = []
    for turn in range(rounds):
        given = jnp.full(length, float(turn + comm.rank), jnp.float32)
        found = comm.all_reduce(given)
        del given
        noise = churn(jnp.full(length, -1.0))
        wrong.append(count_wrong(found, float(comm.size * turn + sum(range(comm.size)))))
        del found, noise
    return int(sum(wrong))


# --- both ----------------------------------------------------------------------------------------


def check_types(comm, dtypes, make, read):
    """Reduce, gather and send arrays of each type; give how many results were compared."""
    count, rank, size = 0, comm.rank, comm.size
    for dtype in dtypes:
        inputs = [values(each, (3, 5), dtype) for each in range(size)]
        mine = make(inputs[rank])
        # Of the small floats only sums of small whole numbers are exact.
        for op in ["sum"] if dtype in EXTENSIONS else ops_for(dtype):
            assert_same(read(comm.all_reduce(mine, op)), reduced(inputs, op))
            count += 1
        assert_same(read(comm.all_gather(mine)), np.stack(inputs))
        assert_same(read(comm.broadcast(mine, size - 1)), inputs[-1])
        after, before = (rank + 1) % size, (rank - 1) % size
        assert_same(read(comm.send_recv(mine, after, make(inputs[rank]), before)), inputs[before])
        assert_same(read(mine), inputs[rank])
        count += 4
    return count


def assert_same(found, expected):
    """Compare types and every value."""
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    np.testing.assert_array_equal(found, expected)
