"""Ranks that wait in a program of JAX: what the cell says of it, how soon, and how they come out."""

import pytest

from jupyter_dist.views.tables.collectives_table import collectives_text
from tests.facts import assert_tells
from tests.matrix import only

from .hangs import SOON_S, Hang
from .results import values

pytest.importorskip("jax")
SETUP = """\
import os, time
import numpy as np
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def until_gate():
    while not os.path.exists({gate!r}):
        time.sleep(0.02)
def lay_out(mesh, numbers):
    split, whole = NamedSharding(mesh, P('ranks')), NamedSharding(mesh, P())
    return jax.make_array_from_process_local_data(split, numbers), whole
def step(x):
    return jnp.sum(x)
mesh = jax.make_mesh((world_size,), ('ranks',))
parts, whole = lay_out(mesh, np.full(1, rank + 1, np.float32))
step = jax.jit(step, out_shardings=whole)
assert float(step(parts)) == 10.0
print('begun')
"""
LINE = SETUP.count("\n") + 1
"""Here begins what a test does."""


@pytest.fixture
def hang(four, tmp_path, in_background):
    """A cell of four ranks in programs of JAX that ends with the test; JAX works after it."""
    hang = Hang(four, tmp_path / "gate", in_background, SETUP)
    yield hang
    hang.end()
    after = SETUP.replace("{gate!r}", "''") + "float(step(parts))"
    assert set(values(four.run(after))) == {"10.0"}


@pytest.mark.slow
def test_a_rank_that_finished_without_calling_is_named_with_the_program_and_the_line(hang):
    hang.begin("if rank != 2:\n    step(parts).block_until_ready()")
    note = hang.verdict("rank 2")
    place = f" of JAX (In[5]:{LINE + 1}) for "
    assert_tells(note, "ranks 0-1,3 wait", "jit(step) #", place, "; rank 2 finished", "; ■ ")
    text = collectives_text(hang.cluster.collectives().table())
    assert_tells(text, "▶ ranks 0-1,3 wait", "jit(step)(", "; rank 2 is done")
    (row,) = [line for line in text.splitlines() if line.startswith("▶  JAX ")]
    assert f"In[5]:{LINE + 1}" in row


@pytest.mark.slow
def test_ranks_come_out_of_it_by_an_interrupt_with_their_variables(hang, within):
    hang.begin("mine = rank\nif rank != 2:\n    step(parts).block_until_ready()")
    hang.verdict("rank 2")
    with within(20):
        hang.cluster.interrupt()
        result = hang.cell.result(10)
    assert [rank.status for rank in result] == ["interrupted", "interrupted", "ok", "interrupted"]
    assert values(hang.cluster.run("mine, float(parts.addressable_data(0)[0])")) == [
        f"({rank}, {rank + 1}.0)" for rank in range(4)
    ]


@pytest.mark.slow
def test_a_collective_of_one_rank_only_is_told(hang):
    hang.begin("if jax.process_index() == 0:\n    print(float(step(parts)))")
    note = hang.verdict("rank 0")
    place = f" of JAX (In[5]:{LINE + 1}) for "
    assert_tells(note, "rank 0 waits", "jit(step) #", place, "; ranks 1-3 finished")


def test_a_rank_that_sleeps_is_told_with_its_line(hang):
    hang.begin(
        "while rank == 3 and not os.path.exists({gate!r}):\n    time.sleep(0.5)\n"
        "step(parts).block_until_ready()"
    )
    note = hang.verdict("rank 3")
    place = f"In[5]:{LINE + 1} (`time.sleep(0.5)`)"
    assert_tells(note, "ranks 0-2 wait", "jit(step) #", "rank 3 has not", "sleeps", place)
    assert hang.end().ok


@pytest.mark.slow
def test_a_straggler_is_no_hang(hang):
    hang.begin(
        "def load():\n    while not os.path.exists({gate!r}): sum(range(1000))\n"
        "if rank == 1: load()\nfloat(step(parts))"
    )
    note = hang.verdict("rank 1")
    assert_tells(note, "ranks 0,2-3 wait", "jit(step) #", "; rank 1 has not", "still computes")
    assert_tells(note, f"computes at In[5]:{LINE + 1} in load", "; no hang")
    assert set(values(hang.end())) == {"10.0"}


@pytest.mark.slow
def test_ranks_in_different_programs_are_told_apart(hang):
    hang.begin(
        "pair = Mesh(np.array(jax.devices()[2:]), ('ranks',))\n"
        "theirs, on_both = lay_out(pair, np.ones(1, np.float32)) if rank > 1 else (None, None)\n"
        "def evaluate(x):\n    return jnp.max(x)\n"
        "if rank == 2:\n    jax.jit(evaluate, out_shardings=on_both)(theirs).block_until_ready()\n"
        "else:\n    step(parts).block_until_ready()"
    )
    note = hang.verdict("each other")
    assert_tells(note, "ranks 0-1,3 wait", "jit(step) #", f" of JAX (In[5]:{LINE + 7}) for ")
    assert_tells(note, "rank 2 waits", "jit(evaluate) #", f" of JAX on 2-3 (In[5]:{LINE + 5}) for ")


def test_who_waits_for_a_rank_that_raised_is_let_go_and_told_why(hang):
    hang.begin(
        "if rank == 2:\n    until_gate()\n    raise ValueError('no data')\n"
        "step(parts).block_until_ready()"
    )
    hang.wait_for_calls(0, 1, 3)
    hang.gate.touch()
    result = hang.cell.result(2 * SOON_S)
    statuses = [rank.status for rank in result]
    assert statuses == ["peer_failed", "peer_failed", "raised", "peer_failed"]
    for rank in (0, 1, 3):
        assert "rank 2 raised ValueError: no data" in result.rank(rank).error.evalue
    text = collectives_text(hang.cluster.collectives().table())
    place = f" of JAX at In[5]:{LINE + 3}"
    assert_tells(text, "▶ ranks 0-1,3 failed", "jit(step)(", f"{place}; rank 2 is done")


GRIND = """\
def turn(n):
    state = jax.lax.while_loop(
        lambda state: state[0] > 0, lambda state: (state[0] - 1, jnp.tanh(state[1])), (n, n / n * np.ones(512))
    )
    return jnp.sum(state[1])
def grind(counts):
    return FINISH(turn(counts[0]))[None]
alone = jax.jit(turn)
alone(1).block_until_ready()
begun_s = time.process_time()  # what others do on this machine must not count
alone(50_000).block_until_ready()
turns = int(SECONDS / (time.process_time() - begun_s) * 50_000)
counts, _ = lay_out(mesh, np.full(1, turns if SLOW else 1, np.int32))
grind = jax.jit(jax.shard_map(grind, mesh=mesh, in_specs=P('ranks'), out_specs=P('ranks')))
print('begun')
grind(counts).block_until_ready()
float(step(parts))
"""
"""A program that computes for long on some ranks; then one that exchanges something."""


def grind(hang, slow, finish, seconds=6.0):
    code = GRIND.replace("SLOW", slow).replace("SECONDS", str(seconds))
    hang.begin(code.replace("FINISH", finish))


@pytest.mark.slow
def test_a_rank_that_computes_in_a_program_of_its_own_is_no_hang(hang):
    # Four ranks measure at once how fast they are; alone one may be faster.
    grind(hang, "rank == 2", "jnp.abs", seconds=12.0)
    note = hang.verdict("rank 2", earliest_s=0.0, within_s=30.0)
    assert_tells(note, "ranks 0-1,3 wait", "jit(step) #", "rank 2 has not", "still computes")
    assert_tells(note, "jitted function", "; no hang")
    assert set(values(hang.cell.result(60))) == {"10.0"}


@pytest.mark.parametrize("slow", only(["rank == 2"], ["rank == 2", "True"], at_night=["True"]))
@pytest.mark.slow
def test_a_program_that_computes_before_it_exchanges_is_left_in_peace(hang, slow):
    grind(hang, slow, "(lambda x: jax.lax.psum(x, 'ranks'))")
    assert set(values(hang.cell.result(60))) == {"10.0"}
    notes = hang.listener.notes  # on a busy machine it may be told that it takes long
    assert all("; no hang" in note for note in notes), notes
