"""What needs other ranks refuses to begin in a task of ipyparallel, which is of one rank alone."""

import pytest
from ipyparallel import interactive
from ipyparallel.error import CompositeError, RemoteError

from .results import values


@interactive
def evaluate(code):
    """Give what it is on a rank; its globals are the user's there."""
    return eval(code, globals())


@pytest.fixture(scope="module")
def client(shared):
    """A client of the ranks, for all tests of this module."""
    client = shared.cluster.ipyparallel()
    yield client
    client.close()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("comm.all_reduce(1.0)", "all_reduce needs"),
        ("comm.barrier()", "barrier needs"),
        ("comm.send(1.0, (rank + 1) % world_size)", "send cannot"),
    ],
)
def test_collectives_raise_at_once_and_those_of_cells_are_none_the_worse(four, client, call, why):
    with pytest.raises(CompositeError) as raised:
        client[:].apply_sync(evaluate, call)
    for rank, (name, text, *_) in enumerate(raised.value.elist):
        assert name == "CommunicatorError"
        assert f"rank {rank} only" in text
        assert why in text
    assert values(four.run("float(comm.all_reduce(1.0))")) == ["4.0"] * 4


BREAK_OURS = """\
import gc
kept = rank
(executor,) = [each for each in gc.get_objects() if type(each).__name__ == 'Executor']
executor._frameworks.context.enter_task = lambda: 1 / 0
"""


def test_an_error_of_our_own_around_a_task_is_that_tasks(four, client):
    pids = values(four.run("import os\nos.getpid()"))
    assert four.run(BREAK_OURS).ok
    with pytest.raises(RemoteError) as raised:
        client[1].apply_sync(evaluate, "rank")
    assert (raised.value.ename, "ZeroDivisionError" in raised.value.evalue) == (
        "InternalError",
        True,
    )
    assert values(four.run("del executor._frameworks.context.enter_task\nkept")) == [
        "0",
        "1",
        "2",
        "3",
    ]
    assert client[1].apply_sync(evaluate, "kept") == 1
    assert values(four.run("float(comm.all_reduce(1.0))")) == ["4.0"] * 4
    assert values(four.run("os.getpid()")) == pids


FORMED = """\
import jax
import numpy as np
mesh = jax.make_mesh((4,), ('i',))
place = jax.NamedSharding(mesh, jax.P('i'))
x = jax.make_array_from_process_local_data(place, np.full((1, 2), rank, np.float32))
"""
TOTAL = "float(np.asarray(jax.jit(lambda x: x.sum())(x)))"


@pytest.mark.slow
def test_a_program_of_jax_for_all_ranks_is_refused(four, client):
    pytest.importorskip("jax")
    assert four.run(FORMED).ok
    with pytest.raises(RemoteError, match="rank 0 only") as raised:
        client[0].apply_sync(evaluate, TOTAL)
    assert raised.value.ename == "UsageError"
    assert client[0].apply_sync(evaluate, "float(jax.numpy.ones(2).sum())") == 2.0
    assert client[0].apply_sync(evaluate, "len(jax.devices())") == 4
    assert values(four.run(TOTAL)) == ["12.0"] * 4


@pytest.mark.slow
def test_jax_is_not_formed_in_a_task(start):
    pytest.importorskip("jax")
    cluster = start("localhost:2")
    with cluster.ipyparallel() as client:
        assert cluster.run("import sys").ok
        with pytest.raises(RemoteError, match="rank 1 only"):
            client[1].apply_sync(evaluate, "__import__('jax').distributed.initialize()")
    formed = cluster.run("import jax\njax.distributed.initialize()\njax.device_count()")
    assert values(formed) == ["2"] * 2
