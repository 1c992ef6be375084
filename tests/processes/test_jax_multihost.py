"""jax.experimental.multihost_utils in cells: each function works, each trap is as docs/how_to/jax.md says.

Beside each trap stands what `comm` does in its place.
"""

import re
from pathlib import Path

import pytest

from tests.facts import assert_tells

from .listener import Listener
from .results import errors, outcome

pytest.importorskip("jax")
IMPORTS = """\
import os
import signal
import numpy as np
import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils as mhu
from jax.sharding import NamedSharding, PartitionSpec as P
"""


@pytest.fixture(autouse=True)
def names_on_all(four):
    assert four.run(IMPORTS).ok


# --- broadcast_one_to_all ------------------------------------------------------------------------


@pytest.mark.slow
def test_broadcast_one_to_all_gives_the_tree_of_one_rank(four):
    code = (
        "tree = mhu.broadcast_one_to_all({'w': np.full(2, rank + 1.0), 'n': rank})\n"
        "other = mhu.broadcast_one_to_all(np.int32(rank), is_source=rank == 2)\n"
        "tree['w'].tolist(), int(tree['n']), int(other)"
    )
    assert outcome(four, code) == ["([1.0, 1.0], 0, 2)"] * 4


@pytest.mark.slow
def test_two_sources_of_a_broadcast_are_added_and_a_root_of_comm_is_one_rank(four):
    code = "int(mhu.broadcast_one_to_all(np.int32(rank), is_source=rank >= 2))"
    assert outcome(four, code) == ["5"] * 4, "2 + 3: the number of no rank"
    assert outcome(four, "comm.broadcast_object(rank, root=2)") == ["2"] * 4


@pytest.mark.slow
def test_a_broadcast_of_jax_cuts_to_32_bits_and_takes_no_text_and_comm_takes_both(four):
    code = (
        "found = mhu.broadcast_one_to_all({'steps': np.int64(2**40) + 1, 'rate': 1 / 3})\n"
        "int(found['steps']), float(found['rate']) == 1 / 3"
    )
    assert outcome(four, code) == ["(1, False)"] * 4
    result = four.run("mhu.broadcast_one_to_all({'name': 'night'})")
    assert all(said.startswith("TypeError: ") for said in errors(result))
    code = (
        "exact = {'steps': 2**40 + 1, 'rate': 1 / 3, 'name': 'night'}\n"
        "comm.broadcast_object(exact if rank == 0 else None) == exact"
    )
    assert outcome(four, code) == ["True"] * 4


# --- process_allgather ---------------------------------------------------------------------------


def test_process_allgather_stacks_or_concatenates(four):
    code = (
        "mine = np.array([rank, -rank])\n"
        "stacked = mhu.process_allgather(mine)\n"
        "tiled = mhu.process_allgather(mine, tiled=True)\n"
        "stacked.tolist(), tiled.tolist()"
    )
    found = "([[0, 0], [1, -1], [2, -2], [3, -3]], [0, 0, 1, -1, 2, -2, 3, -3])"
    assert outcome(four, code) == [found] * 4


def test_process_allgather_gives_the_whole_of_a_global_array(four):
    code = (
        "mesh = jax.make_mesh((4,), ('x',))\n"
        "whole = mhu.host_local_array_to_global_array(np.full((1, 2), rank), mesh, P('x'))\n"
        "mhu.process_allgather(whole, tiled=True)[:, 0].tolist()"
    )
    assert outcome(four, code) == ["[0, 1, 2, 3]"] * 4


def test_process_allgather_makes_zeros_of_large_integers_and_comm_keeps_them(four):
    code = "mhu.process_allgather(np.int64(2**40)).tolist()"
    assert outcome(four, code) == ["[0, 0, 0, 0]"] * 4
    code = "float(mhu.process_allgather(np.float64(1 / 3))[0]) == 1 / 3"
    assert outcome(four, code) == ["False"] * 4
    code = (
        "counts = comm.all_gather_object(np.int64(2**40 + rank))\n"
        "third = comm.all_gather(np.float64(1 / 3))[rank]\n"
        "[int(one) - 2**40 for one in counts], float(third) == 1 / 3"
    )
    assert outcome(four, code) == ["([0, 1, 2, 3], True)"] * 4


def test_with_64_bits_enabled_process_allgather_keeps_large_integers(four):
    code = "with jax.enable_x64(True):\n    found = mhu.process_allgather(np.int64(2**40))\nfound.tolist()"
    assert outcome(four, code) == [str([2**40] * 4)] * 4


@pytest.mark.slow
def test_process_allgather_takes_no_text_no_objects_and_no_keys_and_comm_takes_any(four):
    for one in ("'night'", "np.array([None])", "jax.random.key(0)"):
        said = errors(four.run(f"mhu.process_allgather({one})"))
        assert all(re.match("TypeError: ", text) for text in said), (one, said)
    code = "comm.all_gather_object({'name': 'night', 'rows': list(range(rank))})[3]"
    assert outcome(four, code) == ["{'name': 'night', 'rows': [0, 1, 2]}"] * 4


def test_shapes_that_differ_are_an_error_when_checked_and_no_matter_for_objects(four):
    code = "mhu.process_allgather(np.arange(2 + (rank == 1)))"
    said = errors(four.run(code, check=True, label=5))
    assert all(text.startswith("CollectiveMismatch: ") for text in said), said
    assert all("rank 1" in text for text in said), said
    code = "[len(one) for one in comm.all_gather_object(np.arange(2 + (rank == 1)))]"
    assert outcome(four, code) == ["[2, 3, 2, 2]"] * 4


# --- sync_global_devices -------------------------------------------------------------------------


def test_sync_global_devices_waits_for_all_and_compares_names(four):
    assert outcome(four, "mhu.sync_global_devices('epoch 1')") == [None] * 4
    said = errors(four.run("mhu.sync_global_devices(f'epoch {rank // 2}')"))
    assert all("name mismatch" in text for text in said)
    assert not any("rank" in text for text in said), "it does not say who came where"
    said = errors(four.run("comm.barrier(f'epoch {rank // 2}')"))
    assert all(text.startswith("CollectiveMismatch: ranks ") for text in said), said


@pytest.mark.slow
def test_sync_global_devices_waits_without_end_and_a_barrier_of_comm_names_the_missing(
    four, in_background
):
    listener = Listener()
    code = "if rank != 2:\n    mhu.sync_global_devices('epoch')"
    running = in_background(four.run, code, watcher=listener, label=7)
    listener.wait_for_note("rank 2", within_s=15)
    assert not running.done()
    four.interrupt()
    assert not running.result(15).ok
    code = "if rank != 2:\n    comm.barrier('epoch', timeout_s=0.8)\nelse:\n    time.sleep(2)"
    said = errors(four.run(f"import time\n{code}"))
    assert all("rank 2" in text for rank, text in enumerate(said) if rank != 2), said
    assert outcome(four, "mhu.sync_global_devices('after')") == [None] * 4


# --- assert_equal --------------------------------------------------------------------------------


def test_assert_equal_fails_on_all_ranks_and_comm_says_where_and_who(four):
    assert outcome(four, "mhu.assert_equal({'a': np.arange(3)}, 'settings')") == [None] * 4
    code = ".assert_equal({'a': np.arange(3) + (rank == 3)}, 'settings')"
    said = errors(four.run(f"mhu{code}"))
    assert all("AssertionError: settings. Expected: {'a': array([0, 1, 2, 0" in one for one in said)
    assert not any("rank 3" in text for text in said)
    said = errors(four.run(f"comm{code}"))
    for text in said:
        assert_tells(text, "ValuesDiffer: ", "['a'] (", "rank 3 has 1")


def test_assert_equal_refuses_equal_nans_and_comm_does_not(four):
    said = errors(four.run("mhu.assert_equal(np.array([np.nan]), 'loss')"))
    assert all("AssertionError: loss" in text for text in said)
    assert outcome(four, "comm.assert_equal(np.array([np.nan]), 'loss')") == [None] * 4


def test_assert_equal_sees_small_differences_on_some_ranks_only_and_comm_on_all(four):
    for values_of_ranks in ("np.float64(1 + rank * 1e-12)", "np.int64(2**40 * rank)"):
        said = errors(four.run(f"mhu.assert_equal({values_of_ranks}, 'rate')"))
        assert said[0] == "None", "rank 0 goes on"
        assert all("AssertionError: rate" in text for text in said[1:])
        said = errors(four.run(f"comm.assert_equal({values_of_ranks}, 'rate')"))
        assert all(text.startswith("ValuesDiffer: ") for text in said), said


def test_assert_equal_mixes_types_up_and_comm_names_them(four):
    code = ".assert_equal(1 if rank else 1.0, 'rate')"
    assert "e-45" in errors(four.run(f"mhu{code}"))[0], "bits of an int32, read as a float32"
    said = errors(four.run(f"comm{code}"))
    assert all("rank 0 has" in text and "1.0" in text for text in said), said


def test_assert_equal_believes_an_array_that_says_it_is_replicated_and_comm_looks(four):
    begin = (
        "mesh = jax.make_mesh((4,), ('x',))\n"
        "weights = mhu.host_local_array_to_global_array(np.full(2, rank), mesh, P())\n"
    )
    code = begin + "mhu.assert_equal(weights, 'weights')"
    assert outcome(four, code) == [None] * 4, "0, 1, 2 and 3 pass for equal"
    said = errors(four.run("comm.assert_equal(np.asarray(weights.addressable_data(0)), 'weights')"))
    assert all(text.startswith("ValuesDiffer: ") for text in said), said


# --- local and global arrays ---------------------------------------------------------------------


def test_local_arrays_become_a_global_one_and_local_ones_again(four):
    code = (
        "mesh = jax.make_mesh((4,), ('x',))\n"
        "whole = mhu.host_local_array_to_global_array({'w': np.full((1, 2), rank, np.float32)}, mesh, P('x'))['w']\n"
        "double = jax.jit(lambda x: 2 * x)(whole)\n"
        "mine = mhu.global_array_to_host_local_array(double, mesh, P('x'))\n"
        "whole.shape, whole.is_fully_addressable, np.asarray(mine).tolist()"
    )
    assert outcome(four, code) == [f"((4, 2), False, [[{2.0 * r}, {2.0 * r}]])" for r in range(4)]


def test_a_global_array_is_cut_to_32_bits_too_and_needs_a_spec(four):
    code = (
        "mesh = jax.make_mesh((4,), ('x',))\n"
        "whole = mhu.host_local_array_to_global_array(np.full(1, 2**40), mesh, P('x'))\n"
        "str(whole.dtype), int(whole.addressable_data(0)[0])"
    )
    assert outcome(four, code) == ["('int32', 0)"] * 4
    said = errors(four.run("mhu.host_local_array_to_global_array(np.ones(1), mesh, None)"))
    assert all("`None` is" in text and "pspecs" in text for text in said)


def test_going_back_with_another_spec_moves_the_whole_array_to_every_rank(four):
    code = (
        "mesh = jax.make_mesh((4,), ('x',))\n"
        "whole = mhu.host_local_array_to_global_array(np.full((1, 2), rank), mesh, P('x'))\n"
        "mhu.global_array_to_host_local_array(whole, mesh, P()).shape"
    )
    assert outcome(four, code) == ["(4, 2)"] * 4


# --- what comm does with arrays that span processes -------------------------------------------


def test_comm_makes_global_arrays_gathers_them_and_reads_local_parts(four):
    code = (
        "mesh = jax.make_mesh((2, 2), ('x', 'y'))\n"
        "mine = np.full((2, 3), rank, np.float32)\n"
        "whole = comm.to_global(mine, mesh, P(('x', 'y')))\n"
        "double = jax.jit(lambda x: 2 * x)(whole)\n"
        "gathered = comm.all_gather(double, tiled=True)\n"
        "theirs = mhu.process_allgather(double, tiled=True)\n"
        "halves = jax.device_put(double, NamedSharding(mesh, P('x')))\n"
        "str((double.shape, bool((gathered == theirs).all()), gathered[:, 0].tolist(),"
        " bool((comm.to_local(double) == 2 * mine).all()), comm.to_local(halves)[:, 0].tolist(),"
        " bool((comm.all_gather(halves, tiled=True) == gathered).all())))"
    )
    rows = [2.0 * (row // 2) for row in range(8)]
    assert outcome(four, code) == [
        repr(f"((8, 3), True, {rows}, True, {rows[4 * (r // 2) : 4 * (r // 2) + 4]}, True)")
        for r in range(4)
    ]


def test_comm_tiles_as_process_allgather_does_and_keeps_64_bits(four):
    code = (
        "rows = np.full((2, 3), rank, np.float32)\n"
        "found = comm.all_gather(rows, tiled=True), comm.all_gather(2**40 + rank, tiled=True)\n"
        "theirs = mhu.process_allgather(rows, tiled=True)\n"
        "bool((found[0] == theirs).all()), found[0].shape == theirs.shape, found[1].tolist()"
    )
    assert outcome(four, code) == [str((True, True, [2**40 + r for r in range(4)]))] * 4


def test_parts_that_do_not_fit_are_named_by_comm_before_jax_has_them(four):
    code = "mesh = jax.make_mesh((4,), ('x',))\ncomm.to_global(np.ones((1 + (rank == 2), 2), np.float32), mesh, P('x'))"
    said = errors(four.run(code))
    assert all(text.startswith("ValuesDiffer") and "rank 2" in text for text in said), said
    code = "comm.to_global(np.full(2, rank == 1, np.float32), mesh, P())"
    said = errors(four.run(code))
    assert all(text.startswith("ValuesDiffer") and "['value']" in text for text in said), said


def test_comm_refuses_what_jax_would_cut_to_32_bits_and_what_is_no_spec(four):
    code = "mesh = jax.make_mesh((4,), ('x',))\ncomm.to_global(np.full(1, 2**40), mesh, P('x'))"
    said = errors(four.run(code))
    assert all(text.startswith(("UsageError", "PeerFailed")) for text in said), said
    assert any("int32" in text for text in said)
    said = errors(four.run("comm.to_global(np.ones(1), mesh, None)"))
    assert any("PartitionSpec()" in text for text in said), said


def test_a_global_array_is_gathered_whole_or_not_at_all(four):
    code = (
        "mesh = jax.make_mesh((4,), ('x',))\n"
        "whole = comm.to_global(np.full(1, rank, np.float32), mesh, P('x'))\n"
        "half = comm.split(rank % 2)\nhalf.all_gather(whole, tiled=True)"
    )
    said = errors(four.run(code))
    # The half that is first releases the other one.
    assert all(text.startswith(("UsageError", "PeerFailed")) for text in said), said
    assert any("2 of its 4 elements" in text for text in said), said
    said = errors(four.run("comm.all_gather(whole)"))
    assert any("tiled=True" in text and text.startswith("UsageError") for text in said), said


def test_device_put_of_different_values_is_a_hidden_collective_that_fails_on_all(four):
    code = (
        "spread = NamedSharding(jax.make_mesh((4,), ('x',)), P('x'))\n"
        "jax.device_put(np.full(4, rank), spread)"
    )
    said = errors(four.run(code))
    assert all("device_put" in text and "each process" in text for text in said), said
    code = (
        "mine = jax.make_array_from_process_local_data(spread, np.full(1, rank))\n"
        "int(jax.jit(jnp.sum)(mine))"
    )
    assert outcome(four, code) == ["6"] * 4


def test_rows_that_differ_give_ranks_different_global_shapes_and_checked_an_error(four):
    code = (
        "spread = NamedSharding(jax.make_mesh((4,), ('x',)), P('x'))\n"
        "batch = jax.make_array_from_process_local_data(spread, np.ones((2 + (rank == 3), 2)))\n"
    )
    assert outcome(four, code + "batch.shape[0]") == ["8", "8", "8", "12"]
    said = errors(four.run("float(jax.jit(jnp.sum)(batch))", check=True, label=9))
    assert all(text.startswith("CollectiveMismatch: rank 3 called ") for text in said), said
    assert all("In[9]:1" in text for text in said), said


@pytest.mark.slow
def test_ranks_with_different_numbers_of_devices_cannot_use_them_and_objects_do_not_care(start):
    cluster = start("localhost:2")
    code = (
        "import jax\n"
        "jax.config.update('jax_num_cpu_devices', 1 + (rank == 0))\n"
        "jax.distributed.initialize()\n"
        "from jax.experimental import multihost_utils as mhu\n"
        "len(jax.devices())"
    )
    assert outcome(cluster, code) == ["3", "3"]
    for call in ("process_allgather(1)", "sync_global_devices('a')", "assert_equal(1)"):
        said = errors(cluster.run(f"mhu.{call}"))
        assert all("ValueError: cannot reshape" in text for text in said), said
    assert outcome(cluster, "comm.all_gather_object(len(jax.local_devices()))") == ["[2, 1]"] * 2


# --- preemption and live devices -----------------------------------------------------------------


@pytest.mark.slow
def test_a_sigterm_to_one_rank_is_a_sync_point_at_the_same_step_of_all(start):
    cluster = start("localhost:2")
    code = (
        f"{IMPORTS}import time\n"
        "reached = []\n"
        "for step in range(2000):\n"  # it comes when JAX's services have agreed, and soon
        "    if rank == 1 and step == 3:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(0.02)\n"
        "    if mhu.reached_preemption_sync_point(step):\n"
        "        reached.append(step)\n"
        "    if reached and step > reached[0] + 20:\n"
        "        break\n"
        "reached"
    )
    first, second = outcome(cluster, code, timeout_s=60)
    assert first == second
    assert re.fullmatch(r"\[\d+\]", first), "once, and never again"


def test_without_a_sigterm_there_is_no_sync_point(four):
    code = "any(mhu.reached_preemption_sync_point(step) for step in range(5))"
    assert outcome(four, code) == ["False"] * 4


def test_live_devices_are_those_of_all_ranks(four):
    code = (
        "mesh = jax.make_mesh((4,), ('x',))\n"
        "whole = mhu.host_local_array_to_global_array(np.full(1, rank), mesh, P('x'))\n"
        "with mhu.live_devices(jax.devices()) as living:\n"
        "    total = int(jax.jit(jnp.sum)(whole))\n"
        "[device.process_index for device in living], total"
    )
    assert outcome(four, code) == ["([0, 1, 2, 3], 6)"] * 4


# --- nothing is left out -------------------------------------------------------------------------


def test_every_function_of_multihost_utils_is_used_here(four):
    code = (
        "import inspect\n"
        "sorted(name for name, one in vars(mhu).items() if not name.startswith('_')\n"
        "       and (inspect.isfunction(one) or name == 'live_devices')\n"
        "       and getattr(one, '__module__', '') == mhu.__name__\n"
        "       and not name.endswith(('_impl', '_abstract_eval', '_batcher')))"
    )
    (found, *_) = outcome(four, code)
    used = Path(__file__).read_text(encoding="utf-8")
    names = re.findall(r"\w+", found)
    assert len(names) >= 7
    assert [name for name in names if f"mhu.{name}(" not in used] == []
