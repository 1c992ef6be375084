"""A network of the lab: a switch, and this machine's own cable to it."""

import contextlib
import ipaddress
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

from .firewall import HEAD_PORT
from .system import program, run

HEAD = 254
"""The place of this machine, the one with the notebook, on each network."""
_FOLDERS = Path("/dev/shm")
_PREFIX = "jdl"
_NUMBERS = 1 << 12
_APART = 257


class Network:
    """A switch with ports, whose number no other living lab has; its addresses follow from that.

    The switch is a bridge in a network namespace of its own, where no firewall of this machine
    interferes, and which vanishes with us. A host has a place from 1 to 253 on it.
    """

    def __init__(self, with_head=True):
        self._claim, number = _claim_free_number()
        self.interface = f"{_PREFIX}{number}"
        """This machine's end of its own cable."""
        self.folder = _FOLDERS / self.interface
        """For files in memory; removed with the network, at the latest by the next lab."""
        high, low = divmod(number, 256)
        self._prefix = f"10.{64 + high}.{low}."
        self._prefix6 = f"fd6a:6c:{number:x}::"
        self._mac_prefix = f"02:6a:64:{high:02x}:{low:02x}:"
        self._rules: list[tuple[frozenset[int], str]] = []
        self._switch = None
        try:
            self._build(with_head)
        except BaseException:
            self.close()
            raise

    def _build(self, with_head):
        _remove(self.interface)  # of a lab that was killed
        self.folder.mkdir(mode=0o700)
        # It ends with its stdin, so with this process at the latest.
        self._switch = subprocess.Popen(
            [program("unshare"), "--net", "sh", "-c", "echo up; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]},  # it belongs to the lab, not to a test's home
            start_new_session=True,
        )
        self._switch.stdout.readline()
        end = f"{self.interface} address {self.mac(HEAD)} netns {os.getpid()}"
        self.ip(
            "link add switch type bridge mcast_snooping 0",
            "link set switch up",
            f"link add {HEAD_PORT} type veth peer name {end}",
        )
        self._write_rules()
        ip(f"link set {self.interface} up")
        if with_head:
            self.ip(f"link set {HEAD_PORT} master switch up")
            ip(*self.address_commands(HEAD, self.interface))
        else:
            # Otherwise packets would go to the internet, and who knows who answers there.
            prefixes = [f"{self._prefix}0/24"] + [f"{self._prefix6}/64"] * has_ipv6()
            ip(*[f"route add {prefix} dev {self.interface}" for prefix in prefixes])

    @property
    def switch_pid(self):
        """A process in the network namespace of the switch."""
        return self._switch.pid

    def ip(self, *commands):
        """Run commands of `ip` at the switch."""
        ip(*commands, inside=self.switch_pid)

    def address(self, place):
        """The IPv4 address of a place."""
        return f"{self._prefix}{place}"

    def address6(self, place):
        """The IPv6 address of a place."""
        return f"{self._prefix6}{place:x}"

    def mac(self, place):
        """The hardware address of a place; the same after a host was booted again."""
        return f"{self._mac_prefix}{place:02x}"

    def address_commands(self, place, interface):
        """The commands for `ip` that give an interface the addresses of a place."""
        commands = [f"addr add {self.address(place)}/24 dev {interface}"]
        if has_ipv6():
            # Usable at once: nobody else can have this address.
            commands.append(f"addr add {self.address6(place)}/64 dev {interface} nodad")
        return commands

    def filter(self, places, rules):
        """Add rules to the firewall, on behalf of these places."""
        self._rules += [(frozenset(places), rule) for rule in rules]
        self._write_rules()

    def unfilter(self, place):
        """Remove all rules that have to do with a place."""
        kept = [(places, rule) for places, rule in self._rules if place not in places]
        if kept != self._rules:
            self._rules = kept
            self._write_rules()

    def close(self):
        """Remove everything."""
        _remove(self.interface)
        if self._switch is not None:
            self._switch.communicate(timeout=10)
        self._claim.close()

    def _write_rules(self):
        chain = "bridge lab forward"
        lines = [
            "add table bridge lab",
            f"add chain {chain} {{ type filter hook forward priority 0; }}",
            f"flush chain {chain}",
            *[f"add rule {chain} {rule}" for _, rule in self._rules],
        ]
        nft = ["nsenter", "-t", self.switch_pid, "-n", "nft", "-f", "-"]
        run(nft, "\n".join(lines) + "\n")


def ip(*commands, inside=None):
    """Run commands of `ip` here, or in the network of a process."""
    enter = [] if inside is None else ["nsenter", "-t", inside, "-n"]
    run([*enter, "ip", "-batch", "-"], "\n".join(commands) + "\n")


def has_ipv6():
    """Tell whether this machine gives IPv6 addresses to new interfaces."""
    path = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
    return path.exists() and path.read_text().strip() == "0"


def sweep():
    """Remove what labs that were killed have left: files in memory."""
    for folder in _FOLDERS.glob(f"{_PREFIX}*"):
        number = folder.name.removeprefix(_PREFIX)
        if number.isdigit() and (claim := _claim(int(number))):
            with claim:
                _remove(folder.name)


def _remove(interface):
    with contextlib.suppress(RuntimeError):
        ip(f"link del {interface}")
    shutil.rmtree(_FOLDERS / interface, ignore_errors=True)


def _claim_free_number():
    """Take the first number that is free, and whose addresses lead nowhere yet.

    Neighbouring processes begin far from each other: what one of them has given back, and looks for
    traces of, another would take at once.
    """
    routes = [
        ipaddress.ip_network(route["dst"])
        for route in json.loads(run(["ip", "-j", "-4", "route"]))
        if route["dst"] != "default"
    ]
    for step in range(_NUMBERS):
        number = (os.getpid() * _APART + step) % _NUMBERS
        high, low = divmod(number, 256)
        network = ipaddress.ip_network(f"10.{64 + high}.{low}.0/24")
        if not any(network.overlaps(route) for route in routes) and (claim := _claim(number)):
            return claim, number
    raise RuntimeError("no network 10.64.0.0/24 to 10.79.255.0/24 is free on this machine")


def _claim(number):
    """Own a number as long as this socket is open, so at most as long as this process lives."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0jupyter-dist-lab-{number}")
    except OSError:
        claim.close()
        return None
    return claim
