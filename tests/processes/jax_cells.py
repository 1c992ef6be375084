"""Cells that form JAX on all ranks and define a psum, for tests."""

DEFINE = """\
import time
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def make_psum():
    mesh = Mesh(np.array(jax.devices()), ('i',))
    psum = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh, in_specs=P('i'), out_specs=P())
    )
    spread = NamedSharding(mesh, P('i'))
    def give(value, columns=2):
        rows = np.full((jax.local_device_count(), columns), value, np.float32)
        return jax.make_array_from_process_local_data(spread, rows)
    return psum, give

def read(array):
    return float(np.asarray(array.addressable_data(0)).ravel()[0])

psum, give = make_psum()
"""
WARM = "read(psum(give(rank + 1)))"
AFRESH = "psum, give = make_psum()\nread(psum(give(rank + 1)))"
