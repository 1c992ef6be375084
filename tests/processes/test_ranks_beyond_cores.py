"""Many ranks on few cores: each gets its turn late, and none is blamed for that."""

import pytest

from tests.patience import wait_until

from .leftovers import engines_of

pytestmark = pytest.mark.slow
RANKS = 128


def begin(cluster, in_background, code):
    """Run a cell in the background; returns when all ranks are busy with it."""
    running = in_background(lambda: cluster.run(code))
    wait_until(lambda: set(cluster.status().ranks.values()) == {"busy"}, 30, "all are busy")
    return running


def test_many_ranks_start_meet_are_interrupted_and_leave_nothing(
    start, home, in_background, within
):
    with within(30):
        cluster = start(f"localhost:{RANKS}")
    with within(3):
        assert cluster.run("kept = rank").ok
    with within(20):
        assert cluster.run("for _ in range(2): comm.barrier()").ok
    for code in ("import time\ntime.sleep(60)", "while True: pass"):
        running = begin(cluster, in_background, code)
        with within(12):
            assert len(cluster.interrupt()) == RANKS
            found = running.result(60)
        assert {rank.status for rank in found} == {"interrupted"}
    assert [rank.value_repr for rank in cluster.run("kept")] == [str(n) for n in range(RANKS)]
    assert len(engines_of(cluster)) == RANKS
    with within(10):
        cluster.stop()
    home.assert_nothing_left()
