"""Breaks of the network that end before anybody has to give up."""

import time

import pytest

from tests.matrix import only
from tests.processes.leftovers import wait_until
from tests.processes.listener import begin

from .clusters import values

BREAK_S = 7.0
"""Less than what ends a host, and more than half of it: TCP alone would try again only later."""
FOR_A_WHILE = """
import time, numpy as np
print("here")
until_s = time.monotonic() + 9
while comm.broadcast(np.array([time.monotonic() < until_s]))[0]:
    x = comm.all_reduce(np.ones(1000))
float(x[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", only(["drop"], ["cut", "drop"], at_night=["cut"]))
def test_a_break_of_some_seconds_costs_no_rank_and_no_result(
    lab, start, in_background, within, fault
):
    cluster = start("nodeA:1,nodeB:1,nodeC:1")
    values(cluster.run("kept = rank"))
    cell = in_background(
        cluster.run, "import time; time.sleep(8); total = comm.all_reduce(kept + 1); int(total)"
    )
    wait_until(lambda: set(cluster.status().ranks.values()) == {"busy"}, 5, "all ranks busy")
    getattr(lab, fault)("nodeB")
    time.sleep(BREAK_S)  # the break itself; there is no event at its end but ours
    lab.heal("nodeB")
    with within(15):
        assert values(cell.result(20)) == ["6"] * 3
    assert values(cluster.run("kept")) == ["0", "1", "2"]


@pytest.mark.slow
def test_data_that_is_under_way_when_the_network_breaks_arrives_after_it(
    lab, start, in_background, within
):
    cluster = start("nodeA:1,nodeB:1,nodeC:1")
    cell = begin(in_background, cluster, FOR_A_WHILE)
    lab.drop("nodeB")
    time.sleep(BREAK_S)
    lab.heal("nodeB")
    with within(15):
        assert values(cell.result(20)) == ["3.0"] * 3
    assert [host.state for host in cluster.topology().hosts] == ["up"] * 3


def test_connections_that_are_reset_cost_no_rank_and_no_result(lab, start, in_background, within):
    cluster = start("nodeA:1,nodeB:2")
    values(cluster.run("kept = rank"))
    pids = values(cluster.run("import os; os.getpid()"))
    code = (
        "import time; print('here'); time.sleep(3); total = comm.all_reduce(kept + 1); int(total)"
    )
    cell = begin(in_background, cluster, code)
    lab.reset_connections("nodeB")
    with within(15):
        assert values(cell.result(20)) == ["6"] * 3
    lab.reset_connections("nodeB")  # and while nothing runs
    with within(10):
        assert values(cluster.run("os.getpid()")) == pids
    assert [host.state for host in cluster.topology().hosts] == ["up"] * 2
