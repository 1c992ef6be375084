"""Ranks behind the relay of their host, and the network between that and the coordinator."""

import pytest

from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from tests.processes.conftest import ClusterFactory
from tests.processes.listener import begin

from .clusters import START_TIMEOUT_S, values

RELAY_CONNECTIONS = """
import os, psutil
sum(any(each.laddr.endswith("/relay") for each in child.net_connections("unix"))
    for child in psutil.Process(os.getppid()).children())
"""
"""How many relays there are on the host of a rank."""
PRINTING = """
import time
for number in range(300):
    print(number, "x" * 1000)
    time.sleep(0.01)
int(comm.all_reduce(kept + 1))
"""


@pytest.fixture
def relayed(lab, home):
    """Two hosts with three ranks, and a relay on each; the cluster ends with the test."""
    hosts = tuple(
        HostSpec(name, slots, launcher="ssh", ssh=lab.ssh)
        for name, slots in (("nodeA", 1), ("nodeB", 2))
    )
    spec = ClusterSpec(name="relays", hosts=hosts, communicator="ring", relays="all")
    clusters = ClusterFactory(home)
    yield clusters(None, spec=spec, timeout_s=START_TIMEOUT_S)
    clusters.close()


def test_a_relay_whose_connection_is_reset_costs_no_rank_no_result_and_no_line(
    lab, relayed, in_background, within
):
    assert values(relayed.run(RELAY_CONNECTIONS)) == ["1"] * 3
    values(relayed.run("kept = rank"))
    pids = values(relayed.run("import os; os.getpid()"))
    cell = begin(in_background, relayed, "print('here')" + PRINTING)
    lab.reset_connections("nodeB")
    with within(20):
        result = cell.result(25)
    assert values(result) == ["6"] * 3
    for rank in result:
        assert [line.split()[0] for line in rank.stdout.splitlines()[1:]] == [*map(str, range(300))]
    lab.reset_connections("nodeB")  # and while nothing runs
    with within(10):
        assert values(relayed.run("os.getpid()")) == pids
    assert values(relayed.run(RELAY_CONNECTIONS)) == ["1"] * 3, "it has made its connection again"
    assert [host.state for host in relayed.topology().hosts] == ["up"] * 2
