"""The cable between a host and a switch; it can be cut, and it can be made long."""

import contextlib
import os
import subprocess
import sys

from . import relay
from .network import ip
from .system import program


class Cable:
    """Leads from an interface of a host to a place on a network."""

    def __init__(self, network, place, interface):
        self.network = network
        self.place = place
        self.interface = interface
        self._port = f"port{place}"
        self._tap = f"tap{place}"
        self._relay = None

    @property
    def ports(self):
        """Where its packets may come in and go out at the switch, for the firewall."""
        return (self._port, self._tap)

    def plug(self, pid):
        """Lay it to the host whose first process has this pid."""
        mac = self.network.mac(self.place)
        self.network.ip(
            f"link add {self._port} type veth peer name {self.interface} address {mac} netns {pid}",
            f"link set {self._port} master switch up",
        )
        ip(
            "link set lo up",
            *self.network.address_commands(self.place, self.interface),
            f"link set {self.interface} up",
            inside=pid,
        )

    def unplug(self):
        """Take it away; harmless when it is not there."""
        self._end_relay()
        with contextlib.suppress(RuntimeError):
            self.network.ip(f"link del {self._port}")

    def cut(self):
        """Let nothing through; both ends lose their carrier."""
        self.network.ip(f"link set {self._port} down")

    def mend(self):
        """Undo everything that was done to it and to its packets."""
        self.shorten()
        self.network.unfilter(self.place)
        self.network.ip(f"link set {self._port} up")

    def lengthen(self, delay_ms):
        """Let each packet travel this long, each way; connections survive the change."""
        self.shorten()
        enter = [program("nsenter"), "-t", str(self.network.switch_pid), "--net"]
        words = [sys.executable, "-I", "-S", relay.__file__, self._port, self._tap, str(delay_ms)]
        self._relay = subprocess.Popen(
            [*enter, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]},  # it belongs to the lab, not to a test's home
            start_new_session=True,
        )
        if not self._relay.stdout.readline():
            self._end_relay()
            raise RuntimeError("packets cannot be delayed: is there a /dev/net/tun?")
        self.network.ip(
            f"link set {self._port} nomaster",
            f"link set {self._tap} master switch up",
        )

    def shorten(self):
        """Deliver packets at once again."""
        if self._relay is not None:
            self._end_relay()
            self.network.ip(f"link set {self._port} master switch")

    def _end_relay(self):
        if self._relay is not None:
            self._relay.communicate(timeout=10)
            self._relay = None
