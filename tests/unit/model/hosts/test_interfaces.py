import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.interfaces import (
    LOOPBACK,
    HostNetwork,
    Interface,
    choose_interfaces,
    find_interface,
)

LO = Interface("lo", "127.0.0.1", 8)
LO6 = Interface("lo", "::1", 128)
SPEEDS_MBPS = {"ib": 100_000, "docker": 10_000, "slow": 100}


def ethernet(address, name="eth0", speed_mbps=1000, prefix_length=24):
    return Interface(name, address, prefix_length, speed_mbps)


def host(*interfaces, by=None, wish="", machine=None):
    """A host that reaches the coordinator by its first address, unless another one is named."""
    local = by or interfaces[0].address
    return HostNetwork((LO, *interfaces), local, wish, machine or interfaces[0].address)


def read_host(text):
    """Read a host as `eth0=10.0.0.1 ib0=10.1.0.1 wish=eth0`; names tell how fast interfaces are."""
    words = dict(word.split("=") for word in text.split())
    wish = words.pop("wish", "")
    interfaces = [
        ethernet(address, name, SPEEDS_MBPS.get(name.rstrip("0123456789"), 1000))
        for name, address in words.items()
    ]
    return host(*interfaces, wish=wish)


SIX = [Interface("eth0", f"fd00::{last}", 64, 1000) for last in (1, 2)]
A, B, FAR = ethernet("10.0.0.1"), ethernet("10.0.0.2"), ethernet("10.5.0.2")
HOME_A, HOME_B = ethernet("192.168.1.1", "wlan0"), ethernet("192.168.2.1", "wlan0")


def chosen(**hosts):
    """The addresses of the data paths, in the order of the hosts."""
    return [interface.address for interface in choose_interfaces(hosts).values()]


# --- finding one that someone names ---


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
        ethernet("10.1.0.1", "ib0"),
    ]
    assert find_interface(interfaces, wish, "a").address == address


def test_of_two_addresses_of_an_interface_the_ipv4_one_is_taken():
    six, four = Interface("eth0", "fd00::1", 64), Interface("eth0", "10.0.0.1", 24)
    assert find_interface([six, four], "eth0", "a") is four
    assert find_interface([six], "eth0", "a") is six


def test_a_wish_that_cannot_be_fulfilled_names_the_host_and_what_it_has():
    has = r": lo \(127.0.0.1/8\), eth0 \(10.0.0.1/24\)\."
    with pytest.raises(UsageError, match=f"^host nodeA .*'ib7'.*{has}"):
        find_interface([LO, ethernet("10.0.0.1")], "ib7", "host nodeA")
    with pytest.raises(UsageError, match=r"^host nodeA .*'eth0'.*: none\."):
        find_interface([], "eth0", "host nodeA")


@pytest.mark.parametrize(
    ("hosts", "addresses"),
    [
        ([host(ethernet("10.0.0.1"), machine="m")] * 2, ["127.0.0.1"] * 2),
        ([host(ethernet("10.0.0.1"), wish="eth0")], ["10.0.0.1"]),
        ([host(ethernet("10.0.0.1"), wish="lo")], ["127.0.0.1"]),
        (
            [host(SIX[0], A, by="127.0.0.1"), host(SIX[1], B, by="127.0.0.1")],
            [A.address, B.address],
        ),
        ([host(SIX[0]), host(SIX[1])], ["fd00::1", "fd00::2"]),
        ([host(A, wish="eth0"), host(FAR, wish="eth0")], [A.address, FAR.address]),
        (
            [host(HOME_A, A, by=A.address), host(HOME_B, FAR, by=FAR.address)],
            [A.address, FAR.address],
        ),
        ([host(SIX[0], A, by="127.0.0.1"), host(FAR)], [A.address, FAR.address]),
    ],
    ids=[
        *("two names of one machine need no network", "a wish counts on a single machine, too"),
        *("be it for loopback", "of equal networks IPv4 is taken", "IPv6 alone will do"),
        *("wishes may lead into different networks", "else each takes its way to the coordinator"),
        "who is next to the coordinator takes what others can reach",
    ],
)
def test_each_host_has_the_address_by_which_others_reach_it(hosts, addresses):
    assert chosen(**dict(zip("ab", hosts, strict=False))) == addresses


def test_a_single_host_needs_no_network():
    assert choose_interfaces({"a": host(ethernet("10.0.0.1"))}) == {"a": LOOPBACK}
    assert LOOPBACK.is_loopback
    assert LOOPBACK.name == "", "so that no library is told to use it"


# --- several machines ---


@pytest.mark.parametrize(
    "hosts",
    [
        ("wlan0=192.168.7.1 eth0=10.0.0.1", "wlan0=192.168.8.1 eth0=10.0.0.2"),
        ("eth0=10.1.0.1 ib0=10.0.0.1", "eth0=10.1.0.2 ib3=10.0.0.2"),
        ("eth0=10.0.0.1 ib0=10.1.0.1", "eth0=10.0.0.2 slow0=10.1.0.2"),
        ("eth0=10.0.0.1 ib0=10.1.0.1", "eth0=10.0.0.2 ib0=10.1.0.2", "eth0=10.0.0.3"),
        ("eth0=10.0.0.1 docker0=172.17.0.1", "eth0=10.0.0.2 docker0=172.17.0.1"),
        ("eth0=10.0.0.1 ib0=10.1.0.1 wish=eth0", "eth0=10.0.0.2 ib0=10.1.0.2 wish=10.0.0.0/24"),
        ("eth0=10.0.0.1 ib0=10.1.0.1 wish=eth0", "eth0=10.0.0.2 ib0=10.1.0.2"),
    ],
    ids=[
        *("that all hosts are in", "the fastest, whatever its interfaces are called"),
        *("as fast as its slowest host", "not one that a host lacks, however fast"),
        *("no bridge with the same address on every host", "a wish goes before a faster one"),
        "who has no wish follows the one that has",
    ],
)
def test_of_several_networks_one_is_taken(hosts):
    found = chosen(**dict(zip("abc", map(read_host, hosts), strict=False)))
    assert found == [f"10.0.0.{number}" for number in range(1, len(hosts) + 1)]


def test_of_equally_fast_networks_the_one_that_leads_to_the_coordinator_is_taken():
    def two(last, by):
        return host(ethernet(f"10.0.0.{last}"), ethernet(f"10.1.0.{last}", "eth1"), by=by)

    assert chosen(a=two(1, "10.1.0.1"), b=two(2, "10.1.0.2")) == ["10.1.0.1", "10.1.0.2"]
    assert chosen(a=two(1, "10.0.0.1"), b=two(2, "10.0.0.2")) == ["10.0.0.1", "10.0.0.2"]


def test_the_choice_does_not_depend_on_the_order_in_which_hosts_list_their_interfaces():
    first, second = ethernet("10.0.0.1"), ethernet("10.1.0.1", "eth1")
    other = host(ethernet("10.0.0.2"), ethernet("10.1.0.2", "eth1"), by="127.0.0.1")
    one = choose_interfaces({"a": host(first, second, by="127.0.0.1"), "b": other})
    two = choose_interfaces({"a": host(second, first, by="127.0.0.1", machine="a"), "b": other})
    assert one == two


def test_a_wish_nobody_can_fulfil_names_the_host():
    hosts = {"a": host(ethernet("10.0.0.1")), "b": host(ethernet("10.0.0.2"), wish="ib0")}
    with pytest.raises(UsageError, match=r"^host b .*'ib0'"):
        choose_interfaces(hosts)


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
