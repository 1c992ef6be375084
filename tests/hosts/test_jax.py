"""JAX across hosts: its service and its collectives go over the data path, and a host may go."""

import pytest

from tests.processes.jax_cells import AFRESH, DEFINE, WARM
from tests.processes.results import values

from .test_healing import lose, where

pytest.importorskip("jax")


def pids(cluster):
    return {engine.rank: engine.pid for host in cluster.topology().hosts for engine in host.engines}


@pytest.mark.slow
def test_the_loss_of_the_host_with_its_service_ends_nobody_else(lab, start):
    cluster = start("nodeA:1,nodeB:1,nodeC:1")
    assert values(cluster.run(DEFINE + WARM)) == ["6.0"] * 3
    values(cluster.run("kept = np.full(3, rank)"))
    before = pids(cluster)
    lose(lab, cluster, "nodeA", [0])
    healed = cluster.heal()
    assert healed.replaced[0] in ("nodeB", "nodeC")
    assert where(cluster)[0] == healed.replaced[0]
    assert {rank: pid for rank, pid in pids(cluster).items() if rank} == {
        1: before[1],
        2: before[2],
    }
    values(cluster.run(DEFINE, [0]))
    assert values(cluster.run(AFRESH)) == ["6.0"] * 3
    assert values(cluster.run("int(kept[0])", [1, 2])) == ["1", "2"]
