"""Which of a host's addresses its ranks use among each other; decided, not guessed by a library."""

import ipaddress
from collections.abc import Collection, Mapping, Sequence

import msgspec

from jupyter_dist.errors import UsageError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LOOPBACK = "127.0.0.1"


class Interface(msgspec.Struct, frozen=True):
    """One address of a network interface."""

    name: str
    address: str
    prefix_length: int
    speed_mbps: int = 0
    """Of the link; 0 where the system does not tell."""

    @property
    def network(self) -> Network:
        """The network it is in."""
        return ipaddress.ip_network(f"{self.address}/{self.prefix_length}", strict=False)

    @property
    def is_loopback(self) -> bool:
        """It leads to this machine only."""
        return ipaddress.ip_address(self.address).is_loopback

    def __str__(self) -> str:
        return f"{self.name} ({self.address}/{self.prefix_length})"


LOOPBACK = Interface("", _LOOPBACK, 8)
"""What the ranks of a single machine use."""


class HostNetwork(msgspec.Struct, frozen=True):
    """What is known of one host's network."""

    interfaces: tuple[Interface, ...]
    local_address: str
    """Its own end of the connection to the coordinator."""
    wish: str = ""
    """What the user asked for: the name of an interface, or a network as 10.1.0.0/16."""
    machine: str = ""
    """The same for two hosts only if they are one machine."""
    home_address: str = ""
    """The coordinator's address that worked from here."""

    def has_interface(self, name: str) -> bool:
        """Return whether one of its interfaces is called so."""
        return any(interface.name == name for interface in self.interfaces)


def find_interface(interfaces: Sequence[Interface], wish: str, host: str) -> Interface:
    """Return the interface of this name or in this network; raises UsageError naming what there is.

    IPv4 comes first where an interface has both.
    """
    ordered = sorted(interfaces, key=lambda interface: ":" in interface.address)
    try:
        wanted = ipaddress.ip_network(wish, strict=False)
    except ValueError:
        found = [interface for interface in ordered if interface.name == wish]
    else:
        found = [
            interface for interface in ordered if ipaddress.ip_address(interface.address) in wanted
        ]
    if not found:
        there = ", ".join(str(interface) for interface in ordered) or "none"
        raise UsageError(
            f"{host} has no interface {wish!r}. It has: {there}. "
            "Accepted: the name of an interface, or a network such as 10.1.0.0/16."
        )
    return found[0]


def choose_interfaces(hosts: Mapping[str, HostNetwork]) -> dict[str, Interface]:
    """Choose for each host the interface of its data path.

    Hosts that are one machine need no network. Else what the user asked for comes first; then the
    fastest network that all hosts are in; then the way by which a host reaches the coordinator.
    Raises UsageError for a wish nobody can fulfil.
    """
    wished = {
        name: find_interface(host.interfaces, host.wish, f"host {name}")
        for name, host in hosts.items()
        if host.wish
    }
    if not wished and len({host.machine for host in hosts.values()}) == 1:
        return dict.fromkeys(hosts, LOOPBACK)
    in_common = _choose_in_common(hosts, wished)
    homes = {host.home_address for host in hosts.values()}
    return in_common or {
        name: wished.get(name) or _by_route(host, homes) for name, host in hosts.items()
    }


def _choose_in_common(
    hosts: Mapping[str, HostNetwork], wished: Mapping[str, Interface]
) -> dict[str, Interface]:
    """Return each host's interface in the best network that all of them share; empty if none."""
    networks = {
        interface.network
        for host in hosts.values()
        for interface in host.interfaces
        if not interface.is_loopback
    }
    choices = {
        network: members for network in networks if (members := _members(network, hosts, wished))
    }

    def merit(network: Network) -> tuple[int, int, bool, str]:
        members = choices[network]
        speed_mbps = min(each.speed_mbps for each in members.values())
        routes = sum(hosts[name].local_address == each.address for name, each in members.items())
        return speed_mbps, routes, network.version == 4, str(network)  # the last one breaks ties

    return choices[max(choices, key=merit)] if choices else {}


def _members(
    network: Network, hosts: Mapping[str, HostNetwork], wished: Mapping[str, Interface]
) -> dict[str, Interface]:
    """Return the interface that each host has in this network; empty where one has none to use."""
    members: dict[str, Interface] = {}
    for name, host in hosts.items():
        inside = (each for each in host.interfaces if each.network == network)
        interface = wished.get(name) or next(inside, None)
        if interface is None or interface.network != network:
            return {}
        members[name] = interface
    # Bridges of virtual machines have the same address on every host: no way from one to another.
    addresses = {each.address for each in members.values()}
    return members if len(addresses) == len(hosts) else {}


def _by_route(host: HostNetwork, homes: Collection[str]) -> Interface:
    """Return the interface that leads to the coordinator.

    A host that is the coordinator's own machine takes the one by which others reach it.
    """
    outside = sorted(
        (interface for interface in host.interfaces if not interface.is_loopback),
        key=lambda interface: ":" in interface.address,
    )
    on_the_way = (each for each in outside if each.address in (host.local_address, *homes))
    return next(on_the_way, None) or next(iter(outside), LOOPBACK)
