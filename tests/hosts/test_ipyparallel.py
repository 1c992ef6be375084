"""ipyparallel on ranks of two hosts: the controller is here, and its engines are there."""

import pytest
from ipyparallel import interactive

from jupyter_dist.errors import FrameworkError
from tests.processes.test_ipyparallel_life import controllers_of

from .clusters import values


@pytest.mark.slow
def test_ranks_of_two_hosts_are_engines_of_one_controller(lab, start, within):
    cluster = start("nodeA:2,nodeB:2")
    assert values(cluster.run("kept = rank * 10; 'set'")) == ["'set'"] * 4
    with within(30):
        client = cluster.ipyparallel()
    assert client.ids == [0, 1, 2, 3]
    assert client[:]["kept"] == [0, 10, 20, 30]
    names = client[:].apply_sync(interactive(lambda: __import__("socket").gethostname()))
    assert names == ["nodeA", "nodeA", "nodeB", "nodeB"]
    (controller,) = controllers_of(cluster)
    listening = {c.laddr.ip for c in controller.net_connections("tcp") if c.status == "LISTEN"}
    assert listening == {lab.head_address, "127.0.0.1"}, "where hosts come from, and clients"
    client[:].push({"mine": list(range(1000))}, block=True)
    assert values(cluster.run("len(mine)")) == ["1000"] * 4
    assert cluster.leave_ipyparallel()


@pytest.mark.slow
def test_hosts_behind_a_tunnel_are_named(start):
    cluster = start("nodeA:1,nodeB:1", tunnel=True)
    with pytest.raises(FrameworkError, match=r"nodeA, nodeB: .*tunnel"):
        cluster.ipyparallel()


@pytest.mark.slow
def test_a_rank_of_a_host_that_is_cut_off_is_unregistered_and_comes_back(lab, start):
    cluster = start("nodeA:1,nodeB:1", lost_after_s=4.0)
    client = cluster.ipyparallel()
    running = client[1].execute("import time\nwhile True: time.sleep(0.01)", block=False)
    lab.cut("nodeB")
    with pytest.raises(Exception, match="Engine 1 died"):
        running.get(15)
    assert client.ids == [0]
    lab.heal("nodeB")
    cluster.heal()
    client.wait_for_engines(2, timeout=20)
    assert client[:]["rank"] == [0, 1]
    client.close()
