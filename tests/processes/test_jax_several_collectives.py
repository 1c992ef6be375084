"""A rank dies where one program of JAX has several collectives, of different sizes."""

import psutil
import pytest

from tests.matrix import only
from tests.suspending import resume, suspend

from .leftovers import agents_of, is_alive, wait_until
from .listener import begin
from .results import values

pytest.importorskip("jax")
WITHIN_S = 10
SETUP = """\
import pathlib, time
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

def make():
    mesh = jax.make_mesh((jax.device_count(),), ('i',))
    rows = NamedSharding(mesh, P('i'))
    own = np.full((1, 2048), rank + 1, np.float32)
    return jax.make_array_from_process_local_data(rows, own)

@jax.jit
def sums(x):
    return jnp.sum(x, axis=0), jnp.sum(x[:, :320] * 2, axis=0), jnp.sum(x[:, 0])
"""
READ = "[float(np.ravel(each)[0]) for each in sums(make())]"
RIGHT = str([10.0, 20.0, 10.0])
STEP = """\
x = make()
print('here', flush=True)
folder = pathlib.Path({folder!r})
while not (folder / ('late' if rank == {late} else 'early')).exists():
    time.sleep(0.005)
found = sums(x)
(folder / f'{{rank}} has begun').touch()
try:
    jax.block_until_ready(found)
finally:
    (folder / f'{{rank}} has ended').touch()
"""


@pytest.fixture
def four(start, home):
    """Four ranks that have run the program; one of them will be lost."""
    cluster = start("localhost:4")
    home.remember(cluster)
    values(cluster.run(SETUP, is_setup=True, label=1))
    assert values(cluster.run(READ)) == [RIGHT] * 4
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("victim", only([0], [0, 2], at_night=[2]))
def test_who_has_failed_in_one_of_them_does_not_begin_the_next(
    four, in_background, tmp_path, home, victim
):
    """Else its neighbour, who is still in the first, would send it too much, and end it so."""
    late = (victim + 2) % 4
    early = [rank for rank in range(4) if rank not in (victim, late)]
    before = {engine.rank: engine.pid for engine in four.topology().engines}
    code = STEP.format(folder=str(tmp_path), late=late)
    answer = begin(in_background, four, code)
    (agent,), process = agents_of(four), psutil.Process(before[victim])
    suspend(agent.pid)  # nobody tells of the death, so that nothing is refused or torn for it
    try:
        process.kill()
        wait_until(lambda: not is_alive(process), 5, "it is dead")
        (tmp_path / "early").touch()
        # The other one may wait in a part for which it needs the late one first.
        ends = [tmp_path / f"{rank} has ended" for rank in early]
        wait_until(lambda: any(end.exists() for end in ends), WITHIN_S, "a neighbour has failed")
        (tmp_path / "late").touch()
        wait_until((tmp_path / f"{late} has begun").exists, WITHIN_S, f"{late} has begun")
    finally:
        resume(agent.pid)
    result = answer.result(2 * WITHIN_S)
    assert {end.rank for end in result if end.status == "lost"} == {victim}
    for rank in (*early, late):
        assert result[rank].status == "peer_failed", str(result[rank].error)
        assert result[rank].error.peer_rank == victim
    four.heal()
    home.remember(four)
    assert values(four.run(READ)) == [RIGHT] * 4
    after = {engine.rank: engine.pid for engine in four.topology().engines}
    assert {rank for rank in range(4) if before[rank] != after[rank]} == {victim}
