"""CuPy's own process groups on real GPUs: made without host and port, and gone with a rank."""

import os
import signal

import pytest

from ..processes.leftovers import wait_until  # noqa: TID252  (as the conftest beside)
from .ranks_programs import total

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

INIT = (
    "import cupy, cupyx.distributed\n"
    "group = cupyx.distributed.init_process_group(world_size, rank)\n"
    "x, y = cupy.full(4, rank + 1.0, 'f4'), cupy.empty(4, 'f4')\n"
)
SUM = "group.all_reduce(x, y)\nfloat(y[0])"


def test_one_rank_has_a_group_of_its_own(ranks):
    assert ranks(1).values(INIT + SUM) == total(1)


def test_two_ranks_add_up_and_wait_for_each_other(ranks):
    two = ranks(2)
    assert two.values(INIT + SUM) == total(2)
    assert two.values("for _ in range(100):\n    group.barrier()\n" + SUM) == total(2)
    assert two.values("group.stop()\n" + INIT + SUM) == total(2)


def test_calls_are_seen_by_the_cluster(ranks):
    one = ranks(1)
    one.values(INIT + SUM)
    assert "all_reduce" in str(one.cluster.collectives())


def test_a_rank_that_raises_releases_the_others(ranks):
    two = ranks(2)
    two.values(INIT + SUM)
    result = two.run("if rank == 1:\n    raise ValueError('no')\n" + SUM, timeout_s=30)
    assert [rank.status for rank in result] == ["peer_failed", "raised"]
    assert two.values(INIT + SUM) == total(2)


def test_a_lost_rank_is_replaced_and_the_group_is_made_again(ranks):
    two = ranks(2)
    two.values(INIT + SUM)
    os.kill(two.cluster.topology().engines[1].pid, signal.SIGKILL)
    wait_until(lambda: two.cluster.status().ranks[1] == "lost", 10, "the loss is told")
    assert "group belongs to what was before" in str(two.cluster.heal())
    assert two.values(INIT + SUM) == total(2)


def test_torn_groups_and_comm_go_together(ranks):
    two = ranks(2)
    code = INIT + "group.all_reduce(x, y)\nfloat(comm.all_reduce(x)[0]), float(y[0])"
    assert two.values(code) == ["(3.0, 3.0)"] * 2
