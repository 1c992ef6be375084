"""JAX and torch on real GPUs: formed without an argument, and formed again after a loss."""

import os
import signal

import pytest

from ..processes.leftovers import wait_until  # noqa: TID252  (as the conftest beside)
from .ranks_programs import SMALL, total

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

JAX = (
    "import jax\n"
    "jax.distributed.initialize()\n"
    "mesh = jax.make_mesh((jax.device_count(),), ('i',))\n"
    "step = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh,"
    " in_specs=jax.P('i'), out_specs=jax.P()))\n"
)
JAX_SUM = (
    "import numpy as np\n"
    "part = np.full(jax.local_device_count(), rank + 1.0, np.float32)\n"
    "x = jax.make_array_from_process_local_data(jax.NamedSharding(mesh, jax.P('i')), part)\n"
    "float(np.asarray(step(x).addressable_data(0))[0])"
)
TORCH = "import torch\nimport torch.distributed as dist\ndist.init_process_group()\n"
TORCH_SUM = (
    "given = torch.full((4,), rank + 1.0, device='cuda')\ndist.all_reduce(given)\nfloat(given[0])"
)


def test_jax_finds_gpus_and_adds_up(ranks):
    pytest.importorskip("jax")
    one = ranks(1, **SMALL)
    assert one.values(JAX + "jax.devices()[0].platform") == ["'gpu'"]
    assert one.values(JAX_SUM) == total(1)


def test_jax_spans_ranks_and_is_formed_anew_after_a_loss(ranks):
    pytest.importorskip("jax")
    two = ranks(2, **SMALL)
    assert two.values(JAX + JAX_SUM) == total(2)
    os.kill(two.cluster.topology().engines[1].pid, signal.SIGKILL)
    wait_until(lambda: two.cluster.status().ranks[1] == "lost", 10, "the loss is told")
    two.cluster.heal()
    assert two.values(JAX + JAX_SUM) == total(2)


def test_torch_forms_its_group_with_nccl(ranks):
    pytest.importorskip("torch")
    two = ranks(2)
    assert two.values(TORCH + TORCH_SUM) == total(2)
    # A bare call takes the accelerator's backend alone, from some torch on; before, gloo as well.
    assert {
        each.rpartition(",")[2].strip("'") for each in two.values("str(dist.get_backend_config())")
    } == {"cuda:nccl"}


def test_a_rank_that_raises_releases_others_from_torchs_nccl(ranks):
    pytest.importorskip("torch")
    two = ranks(2)
    two.values(TORCH + TORCH_SUM)
    result = two.run("if rank == 1:\n    raise ValueError('no')\n" + TORCH_SUM, timeout_s=60)
    assert result[1].status == "raised"
    assert two.values(TORCH_SUM, timeout_s=60) == total(2)
