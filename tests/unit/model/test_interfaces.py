import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.interfaces import (
    LOOPBACK,
    HostNetwork,
    Interface,
    choose_interfaces,
    find_interface,
)

LO = Interface("lo", "127.0.0.1", 8)
LO6 = Interface("lo", "::1", 128)


def ethernet(address, name="eth0", speed_mbps=1000, prefix_length=24):
    return Interface(name, address, prefix_length, speed_mbps)


def infiniband(address, name="ib0"):
    return ethernet(address, name, speed_mbps=100_000)


def host(*interfaces, by=None, wish="", machine=None):
    """A host that reaches the coordinator by its first address, unless another one is named."""
    local = by or interfaces[0].address
    return HostNetwork((LO, *interfaces), local, wish, machine or interfaces[0].address)


def chosen(**hosts):
    """The addresses of the data paths, in the order of the hosts."""
    return [interface.address for interface in choose_interfaces(hosts).values()]


# --- finding one that somebody names ---


@pytest.mark.parametrize(
    ("wish", "address"),
    [
        ("eth0", "10.0.0.1"),
        ("ib0", "10.1.0.1"),
        ("10.1.0.0/16", "10.1.0.1"),
        ("10.1.0.99/16", "10.1.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("fd00::/64", "fd00::1"),
        ("lo", "127.0.0.1"),
    ],
)
def test_an_interface_is_found_by_its_name_or_its_network(wish, address):
    interfaces = [
        LO6,
        LO,
        Interface("ib0", "fd00::1", 64),
        ethernet("10.0.0.1"),
        infiniband("10.1.0.1"),
    ]
    assert find_interface(interfaces, wish, "a").address == address


def test_of_two_addresses_of_an_interface_the_ipv4_one_is_taken():
    six, four = Interface("eth0", "fd00::1", 64), Interface("eth0", "10.0.0.1", 24)
    assert find_interface([six, four], "eth0", "a") is four
    assert find_interface([six], "eth0", "a") is six


def test_a_wish_that_cannot_be_fulfilled_names_the_host_and_what_it_has():
    with pytest.raises(UsageError) as caught:
        find_interface([LO, ethernet("10.0.0.1")], "ib7", "host nodeA")
    assert str(caught.value) == (
        "host nodeA has no interface 'ib7'. It has: lo (127.0.0.1/8), eth0 (10.0.0.1/24). "
        "Accepted: the name of an interface, or a network such as 10.1.0.0/16."
    )


def test_a_host_without_any_interface_says_none():
    with pytest.raises(UsageError, match=r"no interface 'eth0'. It has: none\."):
        find_interface([], "eth0", "host nodeA")


# --- one machine ---


def test_a_single_host_needs_no_network():
    assert choose_interfaces({"a": host(ethernet("10.0.0.1"))}) == {"a": LOOPBACK}
    assert LOOPBACK.is_loopback
    assert LOOPBACK.name == "", "so that no library is told to use it"


def test_two_names_of_one_machine_need_no_network():
    one = host(ethernet("10.0.0.1"), machine="m")
    assert chosen(a=one, b=one) == ["127.0.0.1", "127.0.0.1"]


def test_a_wish_is_fulfilled_even_on_a_single_machine():
    assert chosen(a=host(ethernet("10.0.0.1"), wish="eth0")) == ["10.0.0.1"]
    assert chosen(a=host(ethernet("10.0.0.1"), wish="lo")) == ["127.0.0.1"]


# --- several machines ---


def test_the_network_that_all_hosts_are_in_is_taken():
    assert chosen(
        a=host(ethernet("192.168.7.1", "wlan0"), ethernet("10.0.0.1")),
        b=host(ethernet("192.168.8.1", "wlan0"), ethernet("10.0.0.2")),
    ) == ["10.0.0.1", "10.0.0.2"]


def test_of_several_common_networks_the_fastest_is_taken_whatever_its_interfaces_are_called():
    assert chosen(
        a=host(ethernet("10.0.0.1"), infiniband("10.1.0.1", "ib0")),
        b=host(ethernet("10.0.0.2"), infiniband("10.1.0.2", "ib3")),
    ) == ["10.1.0.1", "10.1.0.2"]


def test_a_network_is_as_fast_as_its_slowest_host():
    assert chosen(
        a=host(ethernet("10.0.0.1"), infiniband("10.1.0.1")),
        b=host(ethernet("10.0.0.2"), ethernet("10.1.0.2", "eth1", speed_mbps=100)),
    ) == ["10.0.0.1", "10.0.0.2"]


def test_a_network_that_one_host_lacks_is_not_taken_however_fast():
    assert chosen(
        a=host(ethernet("10.0.0.1"), infiniband("10.1.0.1")),
        b=host(ethernet("10.0.0.2"), infiniband("10.1.0.2")),
        c=host(ethernet("10.0.0.3")),
    ) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def test_a_bridge_with_the_same_address_on_every_host_leads_nowhere():
    docker = ethernet("172.17.0.1", "docker0", speed_mbps=10_000, prefix_length=16)
    assert chosen(
        a=host(docker, ethernet("10.0.0.1"), by="10.0.0.1", machine="a"),
        b=host(docker, ethernet("10.0.0.2"), by="10.0.0.2", machine="b"),
    ) == ["10.0.0.1", "10.0.0.2"]


def test_of_equally_fast_networks_the_one_that_leads_to_the_coordinator_is_taken():
    def two(last, by):
        return host(ethernet(f"10.0.0.{last}"), ethernet(f"10.1.0.{last}", "eth1"), by=by)

    assert chosen(a=two(1, "10.1.0.1"), b=two(2, "10.1.0.2")) == ["10.1.0.1", "10.1.0.2"]
    assert chosen(a=two(1, "10.0.0.1"), b=two(2, "10.0.0.2")) == ["10.0.0.1", "10.0.0.2"]


def test_else_ipv4_is_taken():
    def both(last):
        six = Interface("eth0", f"fd00::{last}", 64, 1000)
        return host(six, ethernet(f"10.0.0.{last}"), by="127.0.0.1")

    assert chosen(a=both(1), b=both(2)) == ["10.0.0.1", "10.0.0.2"]


def test_the_choice_does_not_depend_on_the_order_in_which_hosts_list_their_interfaces():
    first, second = ethernet("10.0.0.1"), ethernet("10.1.0.1", "eth1")
    other = host(ethernet("10.0.0.2"), ethernet("10.1.0.2", "eth1"), by="127.0.0.1")
    one = choose_interfaces({"a": host(first, second, by="127.0.0.1"), "b": other})
    two = choose_interfaces({"a": host(second, first, by="127.0.0.1", machine="a"), "b": other})
    assert one == two


def test_a_network_of_ipv6_alone_will_do():
    six = [Interface("eth0", f"fd00::{last}", 64) for last in (1, 2)]
    assert chosen(a=host(six[0]), b=host(six[1])) == ["fd00::1", "fd00::2"]


# --- wishes among several machines ---


def test_a_wish_goes_before_a_faster_network():
    assert chosen(
        a=host(ethernet("10.0.0.1"), infiniband("10.1.0.1"), wish="eth0"),
        b=host(ethernet("10.0.0.2"), infiniband("10.1.0.2"), wish="10.0.0.0/24"),
    ) == ["10.0.0.1", "10.0.0.2"]


def test_hosts_without_a_wish_follow_the_one_that_has_one():
    assert chosen(
        a=host(ethernet("10.0.0.1"), infiniband("10.1.0.1"), wish="eth0"),
        b=host(ethernet("10.0.0.2"), infiniband("10.1.0.2")),
    ) == ["10.0.0.1", "10.0.0.2"]


def test_wishes_that_lead_into_different_networks_are_fulfilled_all_the_same():
    assert chosen(
        a=host(ethernet("10.0.0.1"), wish="eth0"),
        b=host(ethernet("10.5.0.2"), wish="eth0"),
    ) == ["10.0.0.1", "10.5.0.2"]


def test_a_wish_nobody_can_fulfil_names_the_host():
    hosts = {"a": host(ethernet("10.0.0.1")), "b": host(ethernet("10.0.0.2"), wish="ib0")}
    with pytest.raises(UsageError, match="host b has no interface 'ib0'"):
        choose_interfaces(hosts)


# --- no common network ---


def test_without_a_common_network_each_host_uses_its_way_to_the_coordinator():
    assert chosen(
        a=host(ethernet("192.168.1.1", "wlan0"), ethernet("10.1.0.1"), by="10.1.0.1"),
        b=host(ethernet("192.168.2.1", "wlan0"), ethernet("10.2.0.1"), by="10.2.0.1"),
    ) == ["10.1.0.1", "10.2.0.1"]


def test_a_host_next_to_the_coordinator_uses_an_address_that_others_can_reach():
    six = Interface("eth0", "fd00::1", 64)
    assert chosen(
        a=host(six, ethernet("10.1.0.1"), by="127.0.0.1"),
        b=host(ethernet("10.2.0.1")),
    ) == ["10.1.0.1", "10.2.0.1"]


def test_hosts_with_nothing_but_loopback_get_that():
    alone = {name: HostNetwork((LO,), "127.0.0.1", machine=name) for name in ("a", "b")}
    assert choose_interfaces(alone) == {"a": LOOPBACK, "b": LOOPBACK}


def test_the_coordinators_own_machine_takes_the_way_by_which_others_reach_it():
    bridge, outward = ethernet("172.17.0.1", name="docker0"), ethernet("10.0.0.254", name="eth0")
    here = HostNetwork((LO, bridge, outward), "127.0.0.1", machine="m0", home_address="127.0.0.1")
    there = HostNetwork(
        (LO, ethernet("10.1.0.5")), "10.1.0.5", machine="m1", home_address="10.0.0.254"
    )
    chosen = choose_interfaces({"localhost": here, "far": there})
    assert (chosen["localhost"].name, chosen["far"].address) == ("eth0", "10.1.0.5")
