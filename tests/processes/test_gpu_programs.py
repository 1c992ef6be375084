"""What tests/gpu runs on ranks is rehearsed: with arrays of numpy, on the ring."""

import pytest

from tests.gpu.ranks_programs import call, check

from .conftest import SharedCluster
from .results import values


def rehearse(cluster, what, *arguments):
    return values(cluster.run(check(what, *arguments, arrays="numpy"), timeout_s=120))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two ranks: no program needs more, and each takes its time with four."""
    # Also where there are GPUs, arrays of JAX are to lie in host memory.
    env = {"JAX_PLATFORMS": "cpu"}
    shared = SharedCluster(tmp_path_factory.mktemp("two"), "localhost:2", comm="ring", env=env)
    yield shared
    shared.close()


@pytest.mark.parametrize("what", ["gpu_everything.check", "gpu_outs.check"])
def test_every_operation_agrees_with_numpy(four, what):
    assert all(int(count) > 200 for count in rehearse(four, what))


def test_sparse_matrices_agree_with_scipy(four):
    pytest.importorskip("scipy")
    assert len(set(rehearse(four, "gpu_sparse.check"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_arrays_of_other_libraries_agree_with_numpy(four, name):
    pytest.importorskip(name)
    assert all(int(count) > 40 for count in rehearse(four, f"gpu_libraries.check_{name}"))


def test_arrays_of_jax_may_go_as_soon_as_they_were_passed_on(four):
    pytest.importorskip("jax")
    assert rehearse(four, "gpu_libraries.check_jax_lifetime", "10", "1000") == ["0"] * 2


def test_large_calls_are_compared_at_every_byte(four):
    assert rehearse(four, "gpu_big.check_alone", "1 << 25") == ["0"] * 2
    assert rehearse(four, "gpu_big.check_between", "1 << 25") == ["0"] * 2


def test_arrays_of_all_libraries_are_saved_and_restored_bit_by_bit(four, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    values(four.run(call("gpu_saved.devices", "{}", arrays="numpy")))
    values(four.run("made = gpu_saved.make(rank)"))
    four.checkpoint("arrays", ["made"], directory=tmp_path)
    values(four.run("made = gpu_saved.make(rank + 7)"))
    four.restore("arrays", directory=tmp_path)
    code = "gpu_saved.differing(made, gpu_saved.make(rank)), gpu_saved.devices(made)"
    assert values(four.run(code)) == ["([], ['cpu'])"] * 2
