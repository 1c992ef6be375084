"""Arrays of torch, JAX and scipy.sparse, and small floats, between real processes."""

import pytest

from .test_ring_communicator import ring


def assert_all_done(size, *scenario):
    with ring(size, *scenario, program="library_rank.py") as world:
        world.begin()
        assert all(facts.get("done") for facts in world.finish())


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_small_floats_and_turned_bytes_agree_with_numpy(size):
    assert_all_done(size, "arrays", "numpy")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_tensors_of_torch_come_back_as_tensors(size):
    pytest.importorskip(
        "torch",
        reason="torch is no requirement of the tests: its wheel on PyPI brings gigabytes of CUDA",
    )
    assert_all_done(size, "arrays", "torch")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_arrays_of_jax_come_back_as_arrays_of_jax(size):
    assert_all_done(size, "arrays", "jax")


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sparse_matrices_agree_with_scipy_on_one_machine(size):
    assert_all_done(size, "sparse")
