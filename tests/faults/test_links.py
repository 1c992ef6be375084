"""Links between hosts that break or are slow."""

import pytest

from tests.hosts.conftest import home, hosts_lab, lab, start  # noqa: F401  (here they are others)
from tests.processes.listener import Listener

WORK = """
import numpy as np
print("here")
for _ in range({rounds}):
    total = comm.all_reduce(np.ones(1000))
float(total[0])
"""
CUT_WITHIN_S = 20.0
"""A silent host is given up after 10 s."""


@pytest.mark.slow
def test_a_cut_link_costs_its_rank_and_a_healed_one_gets_it_back(start, lab, in_background):  # noqa: F811
    cluster = start("nodeA:1,nodeB:1")
    assert cluster.run("kept = ('kept', rank)").ok
    listener = Listener()
    running = in_background(cluster.run, WORK.format(rounds=10**6), watcher=listener)
    listener.wait_for("here", ranks=range(2))
    lab.cut("nodeB")
    result = running.result(CUT_WITHIN_S)
    assert [rank.status for rank in result] == ["peer_failed", "lost"]
    assert "nodeB" in str(result[1].error)
    assert cluster.run("kept", ranks=0)[0].value_repr == "('kept', 0)"
    lab.heal("nodeB")
    healed = cluster.heal()
    assert set(healed.replaced) == {1}
    result = cluster.run("globals().get('kept'), int(comm.all_reduce(1))")
    assert [rank.value_repr for rank in result] == ["(('kept', 0), 2)", "(None, 2)"]


@pytest.mark.slow
def test_a_slow_link_is_slow_and_nothing_else(start, lab):  # noqa: F811
    cluster = start("nodeA:1,nodeB:1")
    lab.delay("nodeB", 100)
    result = cluster.run(WORK.format(rounds=5), timeout_s=90)
    assert [rank.value_repr for rank in result] == ["2.0", "2.0"]
    assert {engine.state for engine in cluster.topology().engines} == {"idle"}
    assert cluster.run("1").ok
