"""Which of several networks ranks use among each other, and that their data goes that way."""

import ipaddress

import psutil
import pytest

from jupyter_dist.model.spec.cluster_spec import HostSpec
from tests.facts import assert_tells
from tests.matrix import only
from tests.processes.leftovers import coordinator_of, wait_until

from .clusters import parts, values

PAIR = ("nodeA", "nodeB")
BIG_SUM = """
import numpy as np
x = comm.all_reduce(np.ones(2_000_000))
float(x[0] + x[-1])
"""
NAMES = """
import os
os.environ.get("NCCL_SOCKET_IFNAME"), os.environ.get("GLOO_SOCKET_IFNAME")
"""


def lay(lab, name, hosts, **options):
    """Add a network that is the second one of these hosts, and wait until it can be used."""
    lab.add_network(name, hosts, **options)
    state = ["cat", "/sys/class/net/eth1/operstate"]
    for host in hosts:
        wait_until(lambda host=host: lab.run(host, state).stdout == "up\n", 5, f"eth1 of {host}")


# Networks come before clusters: what makes them must not count as something of a cluster.


@pytest.fixture
def fast(lab):
    """A second network of the hosts, their eth1; on the first one the pair is separated."""
    lab.separate(*PAIR)
    lay(lab, "fast", lab.names, with_head=False)


@pytest.fixture
def way_home(lab):
    """A second network of the hosts and this machine; on the first one no host gets here."""
    for host in PAIR:
        lab.no_route_back(host)
    lay(lab, "home", lab.names)


@pytest.fixture
def apart(lab):
    """A network for each of the pair, without anything in common."""
    for host in PAIR:
        lab.cut(host)
        lay(lab, f"of {host}", [host])


def network_of(lab, network):
    return ipaddress.ip_network(f"{lab.address('nodeA', network)}/24", strict=False)


def places(cluster):
    return [(host.interface, host.address) for host in cluster.topology().hosts]


@pytest.mark.parametrize("by", only(["name"], ["name", "network"]))
def test_data_goes_by_the_interface_that_was_asked_for(fast, start, lab, by):
    wish = "eth1" if by == "name" else str(network_of(lab, "fast"))
    cluster = start([HostSpec(host, 1, interface=wish) for host in PAIR])
    assert places(cluster) == [("eth1", lab.address(host, "fast")) for host in PAIR]
    assert values(cluster.run(NAMES)) == ["('=eth1', 'eth1')"] * 2
    assert values(cluster.run(BIG_SUM)) == ["4.0"] * 2


@pytest.mark.slow
def test_without_a_wish_data_goes_by_the_network_that_leads_home(fast, start, lab):
    cluster = start("nodeA:1,nodeC:1")
    assert places(cluster) == [("eth0", lab.address(host)) for host in ("nodeA", "nodeC")]
    assert values(cluster.run(NAMES)) == ["('=eth0', 'eth0')"] * 2
    assert values(cluster.run(BIG_SUM)) == ["4.0"] * 2


@pytest.mark.slow
def test_what_was_said_of_nccl_and_gloo_goes_before_our_choice(fast, start):
    env, setup = {"NCCL_SOCKET_IFNAME": "eth0"}, ("export GLOO_SOCKET_IFNAME=eth0",)
    hosts = [
        HostSpec("nodeA", 1, interface="eth1", env=env),
        HostSpec("nodeB", 1, interface="eth1", setup=setup),
    ]
    assert values(start(hosts).run(NAMES)) == ["('eth0', 'eth1')", "('=eth1', 'eth0')"]


def test_hosts_come_home_by_the_network_that_was_asked_for(way_home, start, lab):
    network = network_of(lab, "home")
    cluster = start("nodeA:1,nodeB:1", interface=str(network))
    assert places(cluster) == [("eth1", lab.address(host, "home")) for host in PAIR]
    assert values(cluster.run(BIG_SUM)) == ["4.0"] * 2
    listening = [
        each.laddr.ip.removeprefix("::ffff:")
        for each in coordinator_of(cluster).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]
    assert sorted(listening) == sorted([*[str(network[254])] * 3, "127.0.0.1"])


@pytest.mark.slow
def test_an_interface_that_a_host_does_not_have_is_told_with_those_it_has(start, lab):
    hosts = [HostSpec("nodeA", 1, interface="ib0"), HostSpec("nodeB", 1)]
    told, _ = parts(start.refusal(hosts))
    has = f"eth0 ({lab.address('nodeA')}/24)"
    assert_tells(told[0], "host nodeA ", "no interface 'ib0'", has, "Accepted: ", "10.1.0.0/16")


@pytest.mark.slow
def test_an_interface_that_this_machine_does_not_have_is_told_with_those_it_has(start, lab):
    text = start.refusal("nodeA:1", interface="192.0.2.128/25")
    assert_tells(text, "no interface '192.0.2.128/25'", f"({lab.head_address}/24)")


@pytest.mark.slow
def test_hosts_that_share_no_network_use_the_one_that_leads_home(apart, start, lab):
    hosts = [
        HostSpec(
            host,
            1,
            ssh=(
                *lab.ssh,
                f"-oHostName={lab.address(host, f'of {host}')}",
                f"-oHostKeyAlias={host}",
            ),
        )
        for host in PAIR
    ]
    # They cannot reach each other, so there is no communicator.
    cluster = start(hosts, ssh=None, comm="none")
    assert places(cluster) == [("eth1", lab.address(host, f"of {host}")) for host in PAIR]
    assert values(cluster.run("rank")) == ["0", "1"]
