"""Network cards of this machine, their RDMA devices, and which GPUs are near to them."""

import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from msgspec.structs import replace

from jupyter_dist.model.hosts.topology import NicView
from jupyter_dist.probe.pci import DISTANCES, SYS, PciPlace, device_address, read_number, read_text

_LOOPBACK = "lo"
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
_WORKS = ("up", "unknown")
"""States of an interface; some drivers tell none of theirs."""
_ACTIVE = "4:"
"""How the state of an RDMA port begins that carries data."""


class Rdma(NamedTuple):
    """One RDMA device."""

    name: str
    device: Path
    """Of the card it is on."""
    speed_mbps: int
    """Of its fastest port; 0: unknown."""
    is_up: bool


class NicWatch:
    """Samples the network cards; where they stand is found once.

    `gpus` has the address on the PCI bus of each GPU by NVML's number.
    """

    def __init__(self, gpus: Mapping[int, str], root: Path = SYS) -> None:
        self._root = root
        devices = root / "bus" / "pci" / "devices"
        self._gpus = {
            index: PciPlace.of(devices / device_address(bus)) for index, bus in gpus.items() if bus
        }
        self._placed: dict[Path, NicView] = {}
        self._cards: dict[tuple[str, int], Path] = {}
        """Where the link of a card, or RDMA device, led to: its number changes with the card."""

    def sample(self, interfaces: Mapping[str, int] | None = None) -> tuple[NicView, ...]:
        """Describe every card; virtual interfaces only where there is nothing else.

        `interfaces` are those of this process, by name with their number; else they are looked up.
        """
        if interfaces is None:
            interfaces = {name: number for number, name in socket.if_nameindex()}
        known = {
            name: number
            for name, number in interfaces.items()
            if read_number(self._folder(name) / "ifindex") == number
        }
        if not known.keys() - {_LOOPBACK} and interfaces.keys() - {_LOOPBACK}:
            # The files are of another network namespace than this process.
            return _without_files(interfaces)
        rdma = list(self._list_rdma())
        found = [
            self._of_card(name, number, rdma)
            for name, number in sorted(known.items())
            if (self._folder(name) / "device").exists()
        ]
        on_cards = {nic.rdma for nic in found}
        found += [self._of_rdma(each) for each in rdma if each.name not in on_cards]
        if found:
            return tuple(found)
        return _choose_used([self._of_interface(name) for name in sorted(known)])

    def _folder(self, name: str) -> Path:
        return self._root / "class" / "net" / name

    def _card(self, folder: Path, number: int) -> Path:
        key = (folder.name, number)
        if key not in self._cards:
            self._cards[key] = (folder / "device").resolve()
        return self._cards[key]

    def _list_rdma(self) -> Iterable[Rdma]:
        for folder in sorted((self._root / "class" / "infiniband").glob("*")):
            ports = sorted((folder / "ports").glob("*"))
            rates = [_RATE.match(read_text(port / "rate")) for port in ports]
            yield Rdma(
                folder.name,
                self._card(folder, 0),
                max((round(float(rate[1]) * 1000) for rate in rates if rate), default=0),
                any(read_text(port / "state").startswith(_ACTIVE) for port in ports),
            )

    def _of_card(self, name: str, number: int, rdma: list[Rdma]) -> NicView:
        seen = self._of_interface(name)
        device = self._card(self._folder(name), number)
        placed = self._place(name, device)
        own = next((each for each in rdma if each.device == device), None)
        return replace(
            placed,
            speed_mbps=seen.speed_mbps or (own.speed_mbps if own else 0),
            is_up=seen.is_up,
            rdma=own.name if own else "",
        )

    def _of_rdma(self, rdma: Rdma) -> NicView:
        """Describe an RDMA device without an interface, under its own name."""
        placed = self._place(rdma.name, rdma.device)
        return replace(placed, rdma=rdma.name, speed_mbps=rdma.speed_mbps, is_up=rdma.is_up)

    def _of_interface(self, name: str) -> NicView:
        folder = self._folder(name)
        return NicView(
            name=name,
            speed_mbps=max(0, read_number(folder / "speed")),
            is_up=read_text(folder / "operstate") in _WORKS,
        )

    def _place(self, name: str, device: Path) -> NicView:
        """Find where a card stands; a card that changes its name is found again."""
        if device not in self._placed or self._placed[device].name != name:
            place = PciPlace.of(device)
            ways = {index: place.distance_to(gpu) for index, gpu in self._gpus.items()}
            nearest = min(filter(None, ways.values()), key=DISTANCES.index, default="")
            self._placed[device] = NicView(
                name=name,
                numa_node=place.numa_node,
                nearest_gpus=tuple(
                    sorted(i for i, way in ways.items() if nearest and way == nearest)
                ),
                distance=nearest,
            )
        return self._placed[device]


def _without_files(interfaces: Iterable[str]) -> tuple[NicView, ...]:
    """Describe interfaces by what the system's calls tell."""
    states = psutil.net_if_stats()
    return _choose_used(
        [
            NicView(name=name, speed_mbps=states[name].speed, is_up=states[name].isup)
            for name in sorted(interfaces)
            if name in states
        ]
    )


def _choose_used(nics: list[NicView]) -> tuple[NicView, ...]:
    """Return those that are up, loopback only where there is no other."""
    used = tuple(nic for nic in nics if nic.is_up and nic.name != _LOOPBACK)
    return used or tuple(nic for nic in nics if nic.name == _LOOPBACK)
