"""Several hosts on one machine, for tests of what happens between machines.

This process and its machine are the head, the place of the notebook. Each host has its own
network, processes, names and files, and an ssh server; cables and firewalls can be made to fail.

    with HostsLab(["nodeA", "nodeB"], directory) as lab:
        subprocess.run([*lab.ssh, "nodeA", "hostname"])
        lab.cut("nodeA")
"""

import shutil
import subprocess
from pathlib import Path

from tests.patience import wait_until_gone

from . import firewall, host_files
from .cable import Cable
from .host import Host
from .network import HEAD, Network, has_ipv6, sweep
from .system import our_paths, outermost, why_not

MAIN = "main"
"""The network that all hosts and the head are on."""


class HostsLab:
    """Some hosts that are up inside `with`; faults last until `heal`, differences until `reset`.

    Every host sees our Python and our sources at the same paths as here, and the paths in
    `visible`, all of them read-only. The users are root and alice.
    """

    def __init__(self, names, root_dir, visible=()):
        self.names = tuple(names)
        self.directory = Path(root_dir) / "lab"
        self.ssh_config = self.directory / "ssh_config"
        self.ssh = ("ssh", "-F", str(self.ssh_config))
        self._key = self.directory / "id_ed25519"
        self._visible = outermost([*our_paths(), *map(Path, visible)])
        self._hosts: dict[str, Host] = {}
        self._networks: dict[str, Network] = {}
        self._cables: dict[str, dict[str, Cable]] = {name: {} for name in self.names}

    def __enter__(self):
        if reason := why_not():
            raise RuntimeError(f"no lab can be built here: {reason}")
        self.directory.mkdir(mode=0o700, parents=True)
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Remove everything; harmless if it is gone."""
        for host in self._hosts.values():
            host.power_off()
        for name in list(self._networks):
            self.remove_network(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _build(self):
        sweep()
        host_files.make_key(self._key)
        for name in self.names:
            self._hosts[name] = Host(name, self.directory / "hosts" / name, self._visible)
        self.add_network(MAIN, self.names)
        places = {"head": self.head_address} | {name: self.address(name) for name in self.names}
        for host in self._hosts.values():
            host.root.mkdir(parents=True)
            # In memory, because some disks take half a second for so many small files.
            etc = self._networks[MAIN].folder / host.name
            host_files.write_etc(etc, host.name, places)
            (host.root / "etc").symlink_to(etc)
            host.write_homes(self._key)
            host.power_on()
        self._write_ssh_files()
        for name in self.names:
            self._start(name)

    def _start(self, name):
        """Finish what `power_on` of the host began."""
        host = self._hosts[name]
        host.wait_until_built()
        for cable in self._chosen(name):
            cable.plug(host.pid)
        host.start_sshd()

    def _write_ssh_files(self):
        names = {name: (self.address(name), self.address6(name)) for name in self.names}
        keys = {name: self.path(name, host_files.HOST_KEY) for name in self.names}
        host_files.write_ssh_files(self.directory, names, keys)

    def _chosen(self, host, network=None):
        cables = self._cables[host]
        return list(cables.values()) if network is None else [cables[network]]

    def _filter(self, cables, rules, *arguments):
        for cable in cables:
            cable.network.filter([cable.place], rules(cable.ports, *arguments))

    # Where things are

    @property
    def main_network(self):
        """The one that all hosts and the head are on."""
        return self._networks[MAIN]

    @property
    def head_address(self):
        """This machine's IPv4 address, as the hosts see it."""
        return self._networks[MAIN].address(HEAD)

    @property
    def head_address6(self):
        """This machine's IPv6 address, as the hosts see it; empty without IPv6."""
        return self._networks[MAIN].address6(HEAD) if has_ipv6() else ""

    def address(self, host, network=MAIN):
        """The IPv4 address of a host."""
        cable = self._cables[host][network]
        return cable.network.address(cable.place)

    def address6(self, host, network=MAIN):
        """The IPv6 address of a host; empty without IPv6."""
        cable = self._cables[host][network]
        return cable.network.address6(cable.place) if has_ipv6() else ""

    def path(self, host, path):
        """Where this machine finds a file of a host: in /etc, /root, /home, /tmp or /var/tmp."""
        return self._hosts[host].path(path)

    # What happens in a host

    def command(self, host, argv):
        """The words that run something in a host as root, past ssh and the network."""
        return self._hosts[host].command(argv)

    def run(self, host, argv, *, timeout_s=30.0, **options):
        """Run something in a host as root; give the CompletedProcess with text output."""
        given = {"capture_output": True, "text": True, "check": False, **options}
        if "input" not in given:
            given.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.command(host, argv), timeout=timeout_s, **given)  # noqa: PLW1510

    def processes(self, host):
        """The processes in a host as psutil has them, but not its pid 1 and its listening sshd."""
        return self._hosts[host].processes()

    def leftovers(self, host):
        """What jupyter-dist has in a host, in words: processes, open ports, files."""
        return self._hosts[host].leftovers()

    def remove_leftovers(self, host):
        """End all processes that were started in a host, and delete the files of jupyter-dist."""
        self._hosts[host].remove_leftovers()

    def assert_nothing_left(self, within_s=0.0):
        """Fail, naming what is left in any host, if it is not gone in time."""
        wait_until_gone(
            lambda: [what for host in self.names for what in self.leftovers(host)], within_s
        )

    # Faults

    def cut(self, host, network=None):
        """Pull the plug of its cable: both ends lose the carrier."""
        for cable in self._chosen(host, network):
            cable.cut()

    def drop(self, host, direction="both", network=None):
        """Lose all packets `in` to the host, `out` of it, or both, without a word."""
        self._filter(self._chosen(host, network), firewall.drop, direction)

    def lose(self, host, percent, network=None):
        """Lose so many of its packets at random."""
        self._filter(self._chosen(host, network), firewall.lose, percent)

    def block_port(self, host, ports, direction="out"):
        """Lose TCP from the host to ports of the head: a number, or a range as "5000-5999".

        With direction `in` it is TCP from the head to such ports of the host.
        """
        self._filter(self._chosen(host), firewall.block_port, ports, direction)

    def no_route_back(self, host, ports="0-65535"):
        """Let the host open no connection to these ports of the head; the head reaches it as ever."""
        self._filter(self._chosen(host), firewall.no_route_back, ports)

    def separate(self, host, other, direction="both"):
        """Let two hosts not reach each other, or lose what goes `out` to or comes `in` from it.

        The head reaches both.
        """
        for name, cable in self._cables[host].items():
            if there := self._cables[other].get(name):
                rules = firewall.separate(cable.ports, there.ports, direction)
                cable.network.filter([cable.place, there.place], rules)

    def delay(self, host, delay_ms, network=None):
        """Let its packets travel so much longer, each way; connections survive this."""
        for cable in self._chosen(host, network):
            cable.lengthen(delay_ms)

    def crash(self, host):
        """Cut its power: it ends without a word to anybody."""
        self.cut(host)
        self._hosts[host].power_off()
        for cable in self._chosen(host):
            cable.unplug()

    def boot(self, host):
        """Start a host that crashed; its files are there, but what was in memory is not."""
        self._hosts[host].power_on()
        self._start(host)

    def reset_connections(self, host):
        """Have the host's kernel reset every TCP connection that it has with others."""
        self.run(host, ["ss", "-K", "-t", "state", "established"])

    def kill_sshd(self, host):
        """Kill its ssh server with all sessions; what was started in these may live on."""
        self._hosts[host].stop_sshd(with_sessions=True)

    def start_sshd(self, host):
        """Start its ssh server; harmless if it runs."""
        self._hosts[host].start_sshd()

    def heal(self, host):
        """Undo all faults of a host."""
        if not self._hosts[host].pid:
            for cable in self._chosen(host):
                cable.unplug()
            self.boot(host)
        for cable in self._chosen(host):
            cable.mend()
        self.start_sshd(host)

    # Differences

    def write(self, host, path, text, mode=0o644):
        """Write a file of root's in a host, whether it is up or not; folders as for `path`."""
        self._hosts[host].write(path, text, mode)

    def make_read_only_home(self, host):
        """Let nobody write to /root and /home in a host until it is booted again or `reset`."""
        self._hosts[host].remount_homes("ro")

    def new_host_key(self, host):
        """Let its ssh server have another key than the one we know; sessions go on."""
        self._hosts[host].change_host_key()

    def add_network(self, name, hosts, with_head=True):
        """Lay cables from some hosts to one more network: their eth1, then eth2."""
        network = self._networks[name] = Network(with_head)
        for host in hosts:
            place, interface = self.names.index(host) + 1, f"eth{len(self._cables[host])}"
            cable = self._cables[host][name] = Cable(network, place, interface)
            if pid := self._hosts[host].pid:
                cable.plug(pid)

    def remove_network(self, name):
        """Remove a network with its cables."""
        for cables in self._cables.values():
            if cable := cables.pop(name, None):
                cable.unplug()
        self._networks.pop(name).close()

    def reset(self):
        """Heal all hosts and make them as they were built, without files that others wrote."""
        for name in self._networks.keys() - {MAIN}:
            self.remove_network(name)
        for host in self._hosts.values():
            self.heal(host.name)
            host.restore(self._key)
        self._write_ssh_files()
