"""The core of JAX with an older version of it, beside the one that all other tests are run with.

JUPYTER_DIST_OLDER_JAX names the directory that it is in:

    pip install --target .venv/older-jax jax==0.7.2
    JUPYTER_DIST_OLDER_JAX=.venv/older-jax pytest tests/processes/test_jax_versions.py
"""

import importlib.metadata
import os
import signal
from pathlib import Path

import pytest

from jupyter_dist.views.tables.collectives_table import collectives_text
from tests.facts import assert_tells

from .conftest import SharedCluster
from .hangs import Hang
from .results import values

OLDER = os.environ.get("JUPYTER_DIST_OLDER_JAX", "")
pytestmark = [
    pytest.mark.skipif(
        not OLDER,
        reason="JUPYTER_DIST_OLDER_JAX is not set: pip install --target DIR jax==0.7.2",
    ),
]

PROGRAM = """\
import os, time
import numpy as np
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
def step(x):
    return jnp.sum(x)
def place(numbers):
    return jax.make_array_from_process_local_data(split, np.asarray(numbers, np.float32))
mesh = jax.make_mesh((world_size,), ('ranks',))
split, whole = NamedSharding(mesh, P('ranks')), NamedSharding(mesh, P())
step = jax.jit(step, out_shardings=whole)
parts = place([rank + 1])
print('begun')
"""
LINE = PROGRAM.count("\n") + 1
SUM = f"{PROGRAM}float(step(parts))"
GUIDE = (
    "jax.pmap(lambda x: jax.lax.psum(x, 'i'), axis_name='i')(jnp.ones(jax.local_device_count()))"
)


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """Four ranks whose JAX is the older one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", str(Path(OLDER).resolve()))
        shared = SharedCluster(tmp_path_factory.mktemp("older"))
    yield shared.cluster
    shared.close()


@pytest.fixture
def hang(older, tmp_path, in_background):
    """A cell in programs of JAX that ends with the test; JAX works after it."""
    hang = Hang(older, tmp_path / "gate", in_background, PROGRAM)
    yield hang
    hang.end()
    assert set(values(older.run(SUM))) == {"10.0"}


def test_bare_initialize_forms_the_older_version(older):
    (found,) = importlib.metadata.distributions(name="jax", path=[OLDER])
    code = "import jax\njax.distributed.initialize()\njax.__version__, jax.device_count(), jax.process_index()"
    result = older.run(code)
    assert values(result) == [f"('{found.version}', 4, {rank})" for rank in range(4)]
    notes = [shown.text for rank in result for shown in rank.displays if shown.kind == "note"]
    assert notes == [], "nothing is lacking"


def test_a_second_initialize_is_an_error_and_no_abort(older):
    code = "jax.distributed.initialize()"
    errors = {rank.error.ename for rank in (*older.run(code), *older.run(code)) if rank.error}
    assert errors == {"FrameworkError"}
    assert values(older.run(SUM))[0] == "10.0"


def test_psum_works_in_every_way_and_is_recorded(older):
    code = f"import jax, jax.numpy as jnp\n{GUIDE}.tolist()"
    assert values(older.run(code)) == ["[4.0]"] * 4
    assert set(values(older.run(SUM, label=7))) == {"10.0"}
    code = (
        "from jax.experimental import multihost_utils as mhu\nmhu.process_allgather(rank).tolist()"
    )
    assert set(values(older.run(code))) == {"[0, 1, 2, 3]"}
    (row,) = [line for line in _recorded(older) if "jit(step)" in line and "In[7]" in line]
    assert row.split()[0] == "JAX"
    assert f"In[7]:{LINE}" in row


def _recorded(cluster):
    return collectives_text(cluster.collectives().table()).splitlines()


def test_every_call_of_a_compiled_program_is_recorded(older):
    code = f"{PROGRAM}\nfor _ in range(5):\n    total = step(parts)\nfloat(total)"
    assert set(values(older.run(code, label=8))) == {"10.0"}
    rows = [line for line in _recorded(older) if "jit(step)" in line and "In[8]" in line]
    assert len(rows) == 5


@pytest.mark.slow
def test_a_rank_that_is_missing_is_named_and_an_interrupt_releases_the_others(hang, within):
    hang.begin("mine = rank\nif rank != 2:\n    step(parts).block_until_ready()")
    note = hang.verdict("rank 2")
    place = f" of JAX (In[5]:{LINE + 2}) for "
    assert_tells(note, "ranks 0-1,3 wait", "jit(step) #", place, "; rank 2 finished")
    with within(7.0):
        hang.cluster.interrupt()
        result = hang.cell.result(10)
    assert [rank.status for rank in result] == ["interrupted", "interrupted", "ok", "interrupted"]
    assert values(hang.cluster.run("mine")) == ["0", "1", "2", "3"]


def test_who_waits_for_a_rank_that_raised_is_let_go(older):
    code = (
        f"{PROGRAM}if rank == 1:\n    raise ValueError('no data')\nstep(parts).block_until_ready()"
    )
    statuses = [rank.status for rank in older.run(code, timeout_s=90)]
    assert statuses == ["peer_failed", "raised", "peer_failed", "peer_failed"]
    assert set(values(older.run(SUM))) == {"10.0"}


def test_calls_that_differ_are_an_error_on_all_ranks_before_they_begin(older):
    code = f"{PROGRAM}other = jax.jit(lambda x: jnp.max(x), out_shardings=whole)\n"
    code += "other(parts) if rank == 3 else step(parts)"
    result = older.run(code, check=True, timeout_s=90)
    assert {rank.error.ename for rank in result} == {"CollectiveMismatch"}
    assert all("jit(step)" in rank.error.evalue for rank in result)
    assert set(values(older.run(SUM, check=True))) == {"10.0"}


@pytest.mark.slow
def test_a_killed_rank_is_replaced_and_the_next_psum_is_right(older):
    values(older.run(f"{PROGRAM}kept = np.full(2, rank)\nlocal = jnp.ones(2) * rank"))
    code = "while True:\n    total = step(parts).block_until_ready()"
    result = older.run(f"{PROGRAM}if rank == 2: os.kill(os.getpid(), {signal.SIGKILL:d})\n{code}")
    statuses = [rank.status for rank in result]
    assert statuses == ["peer_failed", "peer_failed", "lost", "peer_failed"]
    older.heal()
    assert set(values(older.run(SUM))) == {"10.0"}
    code = "(kept.tolist(), local.tolist()) if rank != 2 else None"
    assert values(older.run(code)) == [
        None if rank == 2 else f"([{rank}, {rank}], [{rank}.0, {rank}.0])" for rank in range(4)
    ]
