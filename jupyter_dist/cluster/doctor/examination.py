"""Examines hosts without starting a cluster: what they are, and whether they reach each other."""

import contextlib
import secrets
import select
import socket
import sys
from collections.abc import Iterable, Mapping
from time import time
from typing import Any

import msgspec

from jupyter_dist.cluster.doctor.diagnosis import (
    NOTEBOOK,
    Attempt,
    ClockReading,
    Diagnosis,
    HostFacts,
    Observation,
    Unreached,
)
from jupyter_dist.cluster.doctor.doctor_scripts import STARTER, Answer, Command, Ended, HostScripts
from jupyter_dist.cluster.doctor.findings import diagnose
from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.launch.ssh.remote_command import python_script, shell_for, ssh_command
from jupyter_dist.launch.ssh.ssh_failures import explain_ssh
from jupyter_dist.model.hosts.interfaces import find_interface
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec, parse_ports
from jupyter_dist.text.said_lines import last_lines

CLOCK_ROUNDS = 5
"""The round with the shortest way says best what time it is there."""
REACH_TIMEOUT_S = 3.0
MOST_PEERS = 32
"""Others that one host tries to reach; with more hosts the matrix would take its square."""
_LONGEST_START_S = 90.0
"""Less than hosts wait for a command (host_answers.SILENCE_S), so that none leaves meanwhile."""
_REPORT_TIMEOUT_S = 45.0  # nvidia-smi takes its time, twice
_ANSWER_TIMEOUT_S = 15.0
_INNER = ("docker", "podman", "virbr", "cni", "lxcbr", "lxdbr", "br-")
"""Beginnings of the names of bridges that lead to containers of one machine only."""


def examine(spec: ClusterSpec) -> Diagnosis:
    """Examine the hosts of a specification; what keeps one of them from it is a finding.

    Raise UsageError where that cannot be done from this system.
    """
    if not hasattr(select, "poll"):
        raise UsageError(
            "%dist_check does not work from Windows. Run it within WSL, or start the cluster: a "
            "start says of each host what keeps it from joining."
        )
    with HostScripts() as scripts:
        return diagnose(_Examination(spec, scripts).observe())


class _Examination:
    """One pass over all hosts, each step on all of them at once."""

    def __init__(self, spec: ClusterSpec, scripts: HostScripts) -> None:
        self._spec = spec
        self._scripts = scripts
        self._hosts = {host.name: host for host in spec.hosts if host.launcher != "join"}
        self._unreached: dict[str, Unreached] = {}
        self._connect_s: dict[str, float] = {}
        self._facts: dict[str, HostFacts] = {}

    def observe(self) -> Observation:
        """Do every step, and give what was seen."""
        self._connect()
        for name, answer in self._ask_all({"do": "report"}, _REPORT_TIMEOUT_S).items():
            self._facts[name] = msgspec.convert(answer.said, HostFacts, strict=False)
        self._leave_out_ended()
        clocks = self._read_clocks()
        attempts = self._reach()
        homes = self._look_for_homes()
        self._leave_out_ended()
        return Observation(
            hosts=self._spec.hosts,
            facts=self._facts,
            unreached=self._unreached,
            connect_s=self._connect_s,
            clocks=clocks,
            attempts=attempts,
            homes=homes,
            interface=self._spec.interface,
            ports=self._spec.ports,
            is_rehearsal=self._spec.one_machine,
            will_install=self._spec.install,
        )

    def _leave_out_ended(self) -> None:
        """Leave out hosts that have ended meanwhile; without this machine nothing can go on."""
        for name, ended in self._scripts.ended.items():
            self._unreached[name] = self._explain(name, ended)
        for name in self._unreached:
            self._facts.pop(name, None)
        if NOTEBOOK not in self._facts:
            reason = self._unreached[NOTEBOOK].reason
            raise DistError(f"this machine cannot be examined itself: {reason}.")

    def _connect(self) -> None:
        started_s = time()
        self._scripts.start(NOTEBOOK, [sys.executable, "-c", STARTER])
        for name, host in self._hosts.items():
            try:
                self._scripts.start(name, _command(host))
            except OSError as problem:
                self._unreached[name] = Unreached(
                    f"{_command(host)[0]} cannot be run on this machine ({problem.strerror})",
                    "Install it, or name another ssh command with --ssh.",
                )
        answers = self._ask_all({"do": "hello"}, min(self._spec.timeout_s, _LONGEST_START_S))
        self._connect_s = {name: each.heard_s - started_s for name, each in answers.items()}

    def _read_clocks(self) -> dict[str, ClockReading]:
        readings: dict[str, ClockReading] = {}
        for _ in range(CLOCK_ROUNDS):
            for name, answer in self._ask_all({"do": "clock"}, _ANSWER_TIMEOUT_S).items():
                middle_s = (answer.asked_s + answer.heard_s) / 2
                uncertainty_s = (answer.heard_s - answer.asked_s) / 2
                if name not in readings or uncertainty_s < readings[name].uncertainty_s:
                    offset_s = float(answer.said["time_s"]) - middle_s
                    readings[name] = ClockReading(offset_s, uncertainty_s)
        readings.pop(NOTEBOOK, None)
        return readings

    def _reach(self) -> tuple[Attempt, ...]:
        """Let every host try the others and the notebook's machine, all at once."""
        words = {name: secrets.token_hex(16) for name in self._facts}
        commands: dict[str, dict[str, Any]] = {
            name: {"do": "listen", "word": word} for name, word in words.items()
        }
        if allowed := list(parse_ports(self._spec.ports)):
            commands[NOTEBOOK]["ports"] = allowed
        listening = {
            name: answer.said for name, answer in self._ask(commands, _ANSWER_TIMEOUT_S).items()
        }
        plans: dict[str, list[tuple[str, str]]] = {
            source: [
                (target, address)
                for target in _peers(source, list(listening))
                for address in self._addresses(source, target)
                if _port_for(address, listening[target])
            ]
            for source in listening
        }
        reaching: dict[str, Command] = {
            source: {
                "do": "reach",
                "timeout_s": REACH_TIMEOUT_S,
                "targets": [
                    (address, _port_for(address, listening[target]), words[target])
                    for target, address in plan
                ],
            }
            for source, plan in plans.items()
        }
        answers = self._ask(reaching, REACH_TIMEOUT_S + _ANSWER_TIMEOUT_S)
        return tuple(
            Attempt(source, target, address, outcome, own_address)
            for source, answer in answers.items()
            for (target, address), (outcome, own_address) in zip(
                plans[source], answer.said["results"], strict=True
            )
        )

    def _look_for_homes(self) -> dict[str, tuple[str, ...]]:
        """Leave a file at home here and on the first other host, and see who finds them."""
        here = self._facts[NOTEBOOK].machine
        makers = [NOTEBOOK, *(name for name, own in self._facts.items() if own.machine != here)][:2]
        token = secrets.token_hex(8)
        files = {f"{token}-{number}": maker for number, maker in enumerate(makers)}
        touched = self._ask(
            {maker: {"do": "touch", "name": file} for file, maker in files.items()},
            _ANSWER_TIMEOUT_S,
        )
        there = {
            file: maker
            for file, maker in files.items()
            if maker in touched and not touched[maker].said["problem"]
        }
        seen = self._ask_all({"do": "look", "names": list(there)}, _ANSWER_TIMEOUT_S)
        return {
            name: tuple(there[file] for file in answer.said["seen"])
            for name, answer in seen.items()
        }

    def _ask_all(self, command: Command, within_s: float) -> dict[str, Answer]:
        return self._ask(dict.fromkeys((NOTEBOOK, *self._hosts), command), within_s)

    def _ask(self, commands: Mapping[str, Command], within_s: float) -> dict[str, Answer]:
        """Ask, and take a host that could not do what it was asked for one that failed."""
        answers = self._scripts.ask(commands, within_s)
        for name, answer in answers.items():
            if "error" in answer.said:
                self._unreached[name] = Unreached(
                    f"its Python could not {commands[name]['do']}: {answer.said['error']}",
                    "Name another interpreter with --python.",
                )
        return {name: answer for name, answer in answers.items() if "error" not in answer.said}

    def _addresses(self, source: str, target: str) -> list[str]:
        """List the addresses under which the source may find the target."""
        interfaces = [
            each
            for each in self._facts[target].interfaces
            if not each.is_loopback and not each.name.startswith(_INNER)
        ]
        addresses = [each.address for each in interfaces]
        wish = self._spec.interface
        if target == NOTEBOOK and wish:
            with contextlib.suppress(UsageError):  # there is none, which is a finding
                return [find_interface(self._facts[target].interfaces, wish, target).address]
        if self._facts[source].machine == self._facts[target].machine:
            addresses.insert(0, "127.0.0.1")
        if source == NOTEBOOK and not addresses:
            addresses = list(_resolve(self._hosts[target].address))
        return addresses

    def _explain(self, name: str, ended: Ended) -> Unreached:
        said = last_lines(ended.stderr, 3).strip()
        host = self._hosts.get(name)
        if ended.status is None:
            limit_s = min(self._spec.timeout_s, _LONGEST_START_S)
            what = f"no Python answered there within {limit_s:.0f} s"
            if ended.has_greeted:
                what = "it stopped answering while it was examined"
            return Unreached(
                what + (f": {said}" if said else ""),
                "See what its shell's start files and its setup commands wait for.",
            )
        if host is not None and host.launcher == "ssh":
            failure = explain_ssh(host, ended.status, ended.stderr)
            return Unreached(failure.reason, failure.next_step)
        return Unreached(
            f"its Python ended with status {ended.status}" + (f": {said}" if said else ""),
            "Name another interpreter with --python.",
        )


def _command(host: HostSpec) -> list[str]:
    """Return the words that run the starter on a host, as its agent would be run."""
    arguments = ["-c", STARTER]
    if host.launcher == "ssh":
        return ssh_command(host, python_script(host, arguments))
    if host.python or host.setup:
        return [*shell_for(host), python_script(host, arguments)]
    return [sys.executable, *arguments]


def _peers(source: str, names: list[str]) -> list[str]:
    """Choose whom a host tries: the notebook's machine and the hosts that follow it in a ring."""
    hosts = [name for name in names if name != NOTEBOOK]
    if source == NOTEBOOK:
        return hosts
    start = hosts.index(source) + 1
    others = (hosts[start:] + hosts[: start - 1])[:MOST_PEERS]
    return [*(name for name in names if name == NOTEBOOK), *others]


def _port_for(address: str, ports: Mapping[str, Any]) -> int:
    return int(ports.get("port6" if ":" in address else "port", 0))


def _resolve(name: str) -> Iterable[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return {str(info[4][0]) for info in found if "%" not in str(info[4][0])}
