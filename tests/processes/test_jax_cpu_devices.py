"""Several devices that JAX makes of the cores of each rank: loops over them end."""

import pytest

from .results import values

pytest.importorskip("jax")
LOOP = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ("data",))
rows = np.arange(64, dtype=np.float32).reshape(16, 4) / 64 + rank
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), rows)
w = jax.device_put(np.zeros((4, 1), np.float32), NamedSharding(mesh, P()))

@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(lambda w: ((x @ w - 1) ** 2).mean())(w)

for _ in range(200):
    w = step(w, x)
jax.device_count(), bool(np.isfinite(np.asarray(w.addressable_data(0))).all())
"""


def test_a_loop_over_several_cpu_devices_of_each_rank_ends(start, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    cluster = start("localhost:2", cpu_devices=2)
    assert values(cluster.run(LOOP, timeout_s=40)) == ["(4, True)"] * 2
