"""Which of a host's addresses its ranks use among each other; decided, not guessed by a library."""

import ipaddress
from collections.abc import Mapping, Sequence

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


def find_interface(interfaces: Sequence[Interface], wish: str, host: str) -> Interface:
    """Give the interface of this name or in this network; raises UsageError naming what there is.

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
            f"host {host} has no interface {wish!r}. It has: {there}. "
            "Accepted: the name of an interface, or a network such as 10.1.0.0/16."
        )
    return found[0]


def choose_interfaces(hosts: Mapping[str, HostNetwork]) -> dict[str, Interface]:
    """Choose for each host the interface of its data path.

    What the user asked for comes first; then the fastest network that all hosts are in; then the
    one by which a host reaches the coordinator. Raises UsageError for a wish nobody can fulfil.
    """
    wished = {
        name: find_interface(host.interfaces, host.wish, name)
        for name, host in hosts.items()
        if host.wish
    }
    if not wished and len({host.machine for host in hosts.values()}) == 1:
        return dict.fromkeys(hosts, LOOPBACK)
    common = _common_network({**hosts}, wished)
    return {
        name: wished.get(name) or _in_network(host, common) or _by_route(host)
        for name, host in hosts.items()
    }


def _common_network(
    hosts: Mapping[str, HostNetwork], wished: Mapping[str, Interface]
) -> Network | None:
    """Find the fastest network in which every host has an address of its own."""
    found: list[tuple[int, int, bool, Network]] = []
    candidates = {
        interface.network
        for host in hosts.values()
        for interface in host.interfaces
        if not interface.is_loopback
    }
    for network in candidates:
        members = [
            wished[name] if name in wished else _in_network(host, network)
            for name, host in hosts.items()
        ]
        inside = [each for each in members if each is not None and each.network == network]
        # Bridges of virtual machines have the same address on every host: no way from one to
        # the other.
        if len({each.address for each in inside}) < len(hosts):
            continue
        routes = sum(
            host.local_address == each.address
            for host, each in zip(hosts.values(), inside, strict=True)
        )
        speed = min(each.speed_mbps for each in inside)
        found.append((speed, routes, network.version == 4, network))
    if not found:
        return None
    return max(found, key=lambda each: (each[:3], str(each[3])))[3]


def _in_network(host: HostNetwork, network: Network | None) -> Interface | None:
    return next((each for each in host.interfaces if each.network == network), None)


def _by_route(host: HostNetwork) -> Interface:
    """Give the interface that leads to the coordinator; a host next to it has none for that."""
    outside = sorted(
        (interface for interface in host.interfaces if not interface.is_loopback),
        key=lambda interface: ":" in interface.address,
    )
    by_route = [each for each in host.interfaces if each.address == host.local_address]
    return next(iter([each for each in by_route if not each.is_loopback] or outside), LOOPBACK)
