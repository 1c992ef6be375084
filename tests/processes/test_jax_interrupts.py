"""JAX's collectives when a cell is interrupted or a rank raises: the mesh goes, values stay."""

import pytest

from tests.facts import assert_tells
from tests.matrix import only
from tests.patience import Stopwatch, let_pass

from .jax_cells import AFRESH, DEFINE, WARM
from .listener import Listener, begin
from .results import errors, statuses, values

pytest.importorskip("jax", reason="JAX is not installed")


@pytest.fixture
def four_with_jax(four):
    """Four ranks that have formed JAX, whatever a test before has done to it."""
    four.run("1 / 0")  # the first error of a rank loads what writes errors out
    assert values(four.run(DEFINE + WARM)) == ["10.0"] * 4
    return four


def interrupt_when_stuck(cluster, in_background, code):
    """Run a cell, interrupt it when ranks are stuck; give its result, and what it took."""
    running = begin(in_background, cluster, f"print('here')\n{code}")
    let_pass(1.0)  # there is no event for "now it waits in the collective"
    watch = Stopwatch()
    cluster.interrupt()
    result = running.result(30)
    return result, watch.spell()


@pytest.mark.parametrize(
    "first", only([False], [False, True]), ids=["a connected mesh", "a mesh of strangers"]
)
def test_ranks_stuck_in_a_psum_are_interrupted_and_jax_is_formed_anew(
    four_with_jax, in_background, first
):
    """Where devices have never met, ranks wait for each other's addresses and not for data."""
    if first:
        four_with_jax.run("if rank == 0:\n    raise ValueError\npsum(give(1))")
        assert four_with_jax.run("psum, give = make_psum()").ok
    four_with_jax.run("kept = rank * 10\nlocal = jax.numpy.arange(3) + rank")
    stale = "whole = give(1)\nif rank != 1: psum(whole)"
    result, spell = interrupt_when_stuck(four_with_jax, in_background, stale)
    print(f"from the interrupt to the end of a cell stuck in JAX: {spell}")
    spell.assert_less(20, "the interrupt")
    assert statuses(result) == ["interrupted", "ok", "interrupted", "interrupted"], errors(result)
    assert [result[rank].error.ename for rank in (0, 2, 3)] == ["KeyboardInterrupt"] * 3
    next_one, one_more = Listener(), Listener()
    kept = values(four_with_jax.run("kept, int(local.sum())", watcher=next_one))
    assert kept == [f"({rank * 10}, {3 + 3 * rank})" for rank in range(4)]
    told = [note for note in next_one.notes if "belong" in note and "mesh" in note]
    assert any("whole" in note for note in told), next_one.notes
    assert four_with_jax.run("kept", watcher=one_more).ok
    assert one_more.notes == []
    assert values(four_with_jax.run(AFRESH)) == ["10.0"] * 4


def test_a_rank_that_raises_ends_the_psum_of_the_others(four_with_jax, within):
    code = "if rank == 2:\n    raise ValueError('bug')\npsum(give(1))"
    with within(15) as watch:
        result = four_with_jax.run(code)
    print(f"until the others have left their psum: {watch.spell()}")
    assert statuses(result) == ["peer_failed", "peer_failed", "raised", "peer_failed"]
    assert result[2].error.evalue == "bug"
    for rank in (0, 1, 3):
        assert result[rank].error.ename == "PeerFailed"
        assert result[rank].error.evalue.startswith("rank 2 raised")
    assert values(four_with_jax.run(AFRESH)) == ["10.0"] * 4


def test_a_collective_after_a_failure_is_refused_at_once(four_with_jax):
    code = (
        "if rank == 2:\n    raise ValueError('bug')\n"
        "try:\n    psum(give(1))\nexcept Exception:\n    pass\n"
        "start_s = time.monotonic()\n"
        "try:\n    psum(give(1))\nexcept Exception as error:\n"
        "    print(type(error).__name__, time.monotonic() - start_s)"
    )
    watch = Stopwatch()
    result = four_with_jax.run(code)
    for rank in (0, 1, 3):
        error, took_s = result[rank].stdout.split()
        assert error in {"PeerFailed", "FrameworkError"}
        watch.assert_less(1, "to refuse", took_s=float(took_s))
    assert values(four_with_jax.run(AFRESH)) == ["10.0"] * 4


def test_an_error_on_all_ranks_costs_no_mesh(four_with_jax):
    four_with_jax.run("whole = give(rank + 1)\ntotal = psum(whole)")
    result = four_with_jax.run("psum(whole)\nwohle")
    assert statuses(result) == ["raised"] * 4
    assert values(four_with_jax.run("read(psum(whole)) + read(total)")) == ["20.0"] * 4


def test_a_long_psum_is_not_torn(four_with_jax):
    """It takes longer than the grace of those that a failed rank leaves behind."""
    code = (
        "if rank == 3: time.sleep(2)\n"
        "total = psum(give(rank + 1, columns=4_000_000))\nread(total), total.shape"
    )
    assert values(four_with_jax.run(code)) == ["(10.0, (1, 4000000))"] * 4


def test_local_work_of_a_rank_goes_on_when_another_one_raises(four_with_jax):
    code = (
        "if rank == 1:\n    raise ValueError('bug')\n"
        "total = jax.numpy.zeros(3)\nend_s = time.monotonic() + 1.5\n"
        "while time.monotonic() < end_s:\n    total = jax.jit(lambda x: x + 1)(total)\n"
        "done = bool(total[0] > 0)"
    )
    result = four_with_jax.run(code)
    assert statuses(result) == ["ok", "raised", "ok", "ok"], errors(result)
    assert values(four_with_jax.run("done", ranks="0,2-3")) == ["True"] * 3


def test_a_program_without_collectives_may_run_on_one_rank(four_with_jax):
    four_with_jax.run("whole = give(rank + 1)")
    assert four_with_jax.run("if rank == 0:\n    twice = whole * 2").ok
    assert values(four_with_jax.run("read(psum(whole))")) == ["10.0"] * 4


def test_a_psum_in_a_cell_of_some_ranks_is_refused_with_the_way_out(four_with_jax, within):
    with within(10):
        result = four_with_jax.run("psum(give(1))", ranks="0,2")
    for rank in result:
        assert rank.error.ename == "UsageError"
        assert_tells(rank.error.evalue, "ranks 0-3", "ranks 0,2 only")
    assert values(four_with_jax.run(WARM)) == ["10.0"] * 4


@pytest.mark.slow
def test_an_error_that_user_code_makes_of_a_broken_psum_still_names_the_rank(four_with_jax):
    code = (
        "if rank == 2:\n    raise ValueError('bug')\n"
        "try:\n    psum(give(1))\nexcept Exception as error:\n"
        "    raise RuntimeError('step 7 failed') from error"
    )
    result = four_with_jax.run(code)
    assert statuses(result) == ["peer_failed", "peer_failed", "raised", "peer_failed"]


def test_what_a_cell_leaves_running_is_waited_for(four_with_jax):
    """With several devices on a rank, a program may still run when its call has returned."""
    result = four_with_jax.run("for _ in range(300):\n    last = psum(give(rank + 1))")
    assert result.ok
    assert values(four_with_jax.run("last.is_ready(), read(last)")) == ["(True, 10.0)"] * 4
