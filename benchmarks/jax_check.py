"""Measure what it costs that JAX's collectives are seen: off, recorded, and compared (--check).

python benchmarks/jax_check.py [--ranks 2] [--calls 300] [--rounds 9] [--json FILE]

A sample is the time of many psums of a small array, each waited for, divided by their number, on
rank 0. Off is JAX as it is installed: our functions are taken out, its caches emptied. The kinds
take turns in each round; the table has medians over all rounds, and the quickest round. `local` is
a jitted function of one device, which is never seen.
"""

from figures import Samples, publish, read_options, summarise, take_turns
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.errors import UsageError

DEFINE = """
import time
import jax
import numpy as np
from jax._src import pjit
from jax._src.interpreters import pxla
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ('i',))
psum = jax.jit(
    jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh, in_specs=P('i'), out_specs=P())
)
rows = np.ones((jax.local_device_count(), 256), np.float32)
x = jax.make_array_from_process_local_data(NamedSharding(mesh, P('i')), rows)
local = jax.jit(lambda x: x + 1)
y = jax.numpy.ones(256)
ours = pjit._get_fastpath_data, pxla.ExecuteReplicated.__call__

def see(is_seen):
    whole = ours if is_seen else tuple(each.__wrapped__ for each in ours)
    pjit._get_fastpath_data, pxla.ExecuteReplicated.__call__ = whole
    jax.clear_caches()

def measure(call, argument, count):
    for _ in range(10):
        call(argument).block_until_ready()
    start_s = time.perf_counter()
    for _ in range(count):
        call(argument).block_until_ready()
    return (time.perf_counter() - start_s) / count * 1e6

jax.__version__
"""
KINDS = {
    "psum, off": ("see(False)", "measure(psum, x, {calls})", False),
    "psum, recorded": ("see(True)", "measure(psum, x, {calls})", False),
    "psum, --check": ("see(True)", "measure(psum, x, {calls})", True),
    "local, off": ("see(False)", "measure(local, y, {calls})", False),
    "local, recorded": ("see(True)", "measure(local, y, {calls})", False),
}


def measure(cluster: Cluster, calls: int, rounds: int) -> Samples:
    """Give the microseconds of one call in each round, by kind."""

    def take(prepare: str, code: str, check: bool) -> float:
        _value(cluster, prepare)
        return float(_value(cluster, code.format(calls=calls), check=check))

    return take_turns({kind: lambda what=what: take(*what) for kind, what in KINDS.items()}, rounds)


def _value(cluster: Cluster, code: str, *, check: bool = False) -> str:
    result = cluster.run(code, check=check)
    result.raise_first()
    return result[0].value_repr or "None"


def main() -> None:
    options = read_options(__doc__, ranks=2, calls=300, rounds=9)
    if options.ranks < 2:
        raise UsageError("--ranks must be 2 or more: a single rank has nobody to meet.")
    machine = {**describe_machine(), "ranks": options.ranks}
    with Cluster.start(f"localhost:{options.ranks}") as cluster:
        versions = {"jax": _value(cluster, DEFINE).strip("'")}
        samples = measure(cluster, options.calls, options.rounds)
    publish(options, summarise(samples), digits=1, machine=machine, versions=versions)


if __name__ == "__main__":
    main()
