"""Arrays of torch, JAX and scipy.sparse, and small floats, between real processes."""

import importlib.util
from contextlib import closing

import pytest

from tests.matrix import only

from .fork_server import ForkServer
from .test_ring_communicator import ring_of

# What depends on the number of ranks is the same for all libraries: numpy's arrays show it.


@pytest.fixture(scope="module")
def fork_server():
    """The process that all ranks of this module are forked from."""
    found = [name for name in ("torch", "jax") if importlib.util.find_spec(name)]
    with closing(ForkServer("library_rank", *found)) as server:
        yield server


@pytest.fixture
def assert_all_done(fork_server):
    """Let so many ranks play a scenario to its end."""

    def play(size, *scenario):
        with ring_of(fork_server, size, *scenario) as world:
            world.begin()
            assert all(facts.get("done") for facts in world.finish())

    return play


@pytest.mark.slow
@pytest.mark.parametrize("size", only([1, 3], [1, 2, 3, 4], at_night=[2, 4]))
def test_small_floats_and_turned_bytes_agree_with_numpy(assert_all_done, size):
    assert_all_done(size, "arrays", "numpy")


@pytest.mark.slow
@pytest.mark.parametrize("size", only([3], [1, 3], at_night=[1]))
def test_tensors_of_torch_come_back_as_tensors(assert_all_done, size):
    pytest.importorskip(
        "torch",
        reason="torch is no requirement of the tests: its wheel on PyPI brings gigabytes of CUDA",
    )
    assert_all_done(size, "arrays", "torch")


@pytest.mark.slow
@pytest.mark.parametrize("size", only([3], [1, 3], at_night=[1]))
def test_arrays_of_jax_come_back_as_arrays_of_jax(assert_all_done, size):
    assert_all_done(size, "arrays", "jax")


@pytest.mark.slow
@pytest.mark.parametrize("size", only([1, 3], [1, 2, 3, 4], at_night=[2, 4]))
def test_sparse_matrices_agree_with_scipy_on_one_machine(assert_all_done, size):
    assert_all_done(size, "sparse")
