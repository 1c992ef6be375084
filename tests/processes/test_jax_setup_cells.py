"""Setup cells that use JAX run on a new rank alone, which has JAX with the others by then."""

import pytest

from .leftovers import kill_ranks
from .results import errors, values

pytest.importorskip("jax")
SETUP = "import jax\njax.distributed.initialize()\ncount = jax.device_count()"
PSUM = "jax.pmap(lambda x: jax.lax.psum(x, 'i'), axis_name='i')(jax.numpy.ones(1)).tolist()"
CALL = "jax.distributed.initialize()"


def replace(cluster, rank):
    """Kill a rank, and give what healing says."""
    kill_ranks(cluster, rank)
    return cluster.heal()


def test_a_setup_cell_that_forms_jax_is_replayed_on_every_new_rank(start):
    cluster = start("localhost:2")
    values(cluster.run(SETUP, is_setup=True, label=1))
    for rank in (1, 0):
        healed = replace(cluster, rank)
        assert healed.problems == ()
        assert healed.replayed == ("In[1]",)
        assert values(cluster.run(f"count, {PSUM}")) == ["(2, [2.0])"] * 2


@pytest.mark.slow
def test_a_call_on_some_ranks_that_does_not_agree_with_what_stands_needs_all_of_them(start):
    cluster = start("localhost:2")
    values(cluster.run("import jax"))
    (told,) = errors(cluster.run("jax.distributed.initialize(process_id=0)", ranks=1))
    assert "needs all 2 ranks" in told
    assert cluster.run(CALL, ranks=1).ok
    (told,) = errors(cluster.run(CALL, ranks=1))
    assert "called once" in told
    assert values(cluster.run(PSUM)) == ["[2.0]"] * 2
