"""Arrays of torch and JAX on real GPUs: every type, their own streams and memory, together."""

import pytest

from .ranks_programs import check

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_every_type_and_view_agrees_with_numpy(with_library, library):
    two = with_library(library)
    assert all(int(count) > 40 for count in two.values(check(f"gpu_libraries.check_{library}")))


def test_tensors_on_a_stream_of_their_own_are_right_while_memory_changes_hands(with_library):
    two = with_library("torch")
    assert two.values(check("gpu_libraries.check_torch_stream")) == ["0"] * 2


@pytest.mark.parametrize("before_s", [0.0, 0.5])
def test_graphs_are_captured_while_a_call_is_still_looked_after(with_library, before_s):
    two = with_library("torch")
    assert two.values(check("gpu_libraries.check_torch_capture", str(before_s))) == ["0"] * 2


def test_arrays_of_jax_may_go_as_soon_as_they_were_passed_on(with_library):
    two = with_library("jax")
    assert two.values(check("gpu_libraries.check_jax_lifetime")) == ["0"] * 2


TOGETHER = """\
import cupy, cupyx.distributed, jax, numpy, torch
import torch.distributed as dist
jax.distributed.initialize()
dist.init_process_group()
group = cupyx.distributed.init_process_group(world_size, rank)
mesh = jax.make_mesh((jax.device_count(),), ('i',))
step = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh,
    in_specs=jax.P('i'), out_specs=jax.P()))
"""
ALL_FOUR = """\
found = []
for turn in range(20):
    x = cupy.full(1000, rank + turn, 'f4')
    y = cupy.empty_like(x)
    t = torch.full((1000,), float(rank + turn), device='cuda')
    part = numpy.full(jax.local_device_count(), rank + turn, 'f4')
    j = jax.make_array_from_process_local_data(jax.NamedSharding(mesh, jax.P('i')), part)
    a = comm.all_reduce(x)
    cupy.cuda.get_current_stream().synchronize()
    dist.all_reduce(t)
    torch.cuda.synchronize()
    group.all_reduce(x, y)
    cupy.cuda.get_current_stream().synchronize()
    s = numpy.asarray(step(j).addressable_data(0))
    found.append({float(a[7]), float(t[7]), float(y[7]), float(s[0])})
found == [{2.0 * turn + 1} for turn in range(20)]
"""


def test_four_libraries_communicate_in_one_cell(with_library):
    # Each is waited for: two communicators of NCCL under way at once may wait for each other.
    pytest.importorskip("jax")
    two = with_library("torch")
    two.values(TOGETHER)
    assert two.values(ALL_FOUR) == ["True"] * 2
