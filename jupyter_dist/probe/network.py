"""The network interfaces of this machine."""

import contextlib
import ipaddress
import socket
from typing import Any

from jupyter_dist.model.hosts.interfaces import Interface

_ELSEWHERE = (("192.0.2.1", socket.AF_INET), ("2001:db8::1", socket.AF_INET6))
"""Addresses that belong to nobody; asking for the way there sends nothing."""


def list_interfaces() -> tuple[Interface, ...]:
    """List every address that other machines could use, and loopback; links that are down not."""
    import psutil

    states = psutil.net_if_stats()
    found = []
    for name, addresses in psutil.net_if_addrs().items():
        state = states.get(name)
        if state is None or not state.isup:
            continue
        for address in addresses:
            if address.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            bare = address.address.partition("%")[0]
            if ipaddress.ip_address(bare).is_link_local:
                continue  # it means something else on every link
            found.append(Interface(name, bare, _prefix_length(address), state.speed))
    return tuple(found)


def offered_addresses(interfaces: tuple[Interface, ...]) -> tuple[str, ...]:
    """Return the addresses under which others may reach this machine, the likeliest first."""
    outward = _outward_addresses()
    addresses = [each.address for each in interfaces if not each.is_loopback]
    return tuple(sorted(addresses, key=lambda address: (address not in outward, ":" in address)))


def _prefix_length(address: Any) -> int:
    """Count the bits of the mask; without one (a point-to-point link) the address stands alone."""
    if not address.netmask:
        return 32 if address.family == socket.AF_INET else 128
    return int(ipaddress.ip_address(address.netmask)).bit_count()


def _outward_addresses() -> set[str]:
    """Own addresses on the way to the rest of the world, if there is one."""
    found = set()
    for address, family in _ELSEWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            found.add(str(probe.getsockname()[0]))
    return found
