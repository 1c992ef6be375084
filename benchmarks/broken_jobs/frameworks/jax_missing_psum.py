# /// job
# cause = "rank 1 leaves out the sum over all processes"
# ranks = [1]
# at = ["total = multihost_utils.process_allgather(jnp.ones(3))"]
# says = "finished|never"
# needs = "jax"
# ///
import jax.numpy as jnp
from jax.experimental import multihost_utils

is_logging = rank != 1
if is_logging:
    total = multihost_utils.process_allgather(jnp.ones(3))
    print(total.sum())
