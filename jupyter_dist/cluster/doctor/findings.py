"""What the doctor concludes from what it saw: the rules about a single host, and all together."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from jupyter_dist.cluster.doctor.diagnosis import (
    NOTEBOOK,
    Diagnosis,
    Finding,
    HostFacts,
    Level,
    Observation,
)
from jupyter_dist.cluster.doctor.findings_network import find_network
from jupyter_dist.cluster.doctor.findings_software import find_software, table_of_versions
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.sizes import tell_size

CLOCK_WARNING_S = 2.0
"""From here on the order of log lines from two hosts is a guess."""
CLOCK_BAD_S = 3000.0
"""A clock that runs in another time zone is an hour off, and certificates made here are not yet,
or no longer, valid there."""
FEWEST_FILES = 4096
"""Sockets to every other rank, data files and libraries together pass 1024 on larger clusters."""
FEWEST_PROCESSES = 4096
"""Each rank has some dozens of threads, and each thread counts."""
LEAST_LOCKED_BYTES = 1 << 30
"""RDMA pins the buffers it sends from; NCCL's alone take some hundred MiB."""
LEAST_FREE_BYTES = 1 << 30
"""Object transfers and NCCL use /dev/shm, logs and spilled objects the directory for temporary
files; each of them with less than this is soon full."""
NO_SPACE_BYTES = 1 << 24
"""With less than this not even the files of an idle cluster fit."""
FEWEST_PORTS = 256
"""A rank of a large cluster listens and connects on some dozens of them."""
_UNLIMITED = -1
_Problem: TypeAlias = tuple[Level, str, str]
"""Level, sentence, next step."""
_Rule: TypeAlias = Callable[[HostSpec, HostFacts, Observation], list[Finding]]


def diagnose(observation: Observation) -> Diagnosis:
    """Apply every rule to what was seen."""
    findings = [finding for host in observation.hosts for finding in _about(host, observation)]
    findings += find_software(observation)
    findings += find_network(observation)
    names = tuple(host.name for host in observation.hosts)
    return Diagnosis(names, tuple(findings), table_of_versions(observation))


def _about(host: HostSpec, observation: Observation) -> list[Finding]:
    if host.launcher == "join":
        step = "Run `jupyter dist check` on it."
        what = "it joins on its own, so it cannot be examined from here"
        return [Finding(host.name, "ssh", "warning", what, step, "joins")]
    if host.name in observation.unreached:
        unreached = observation.unreached[host.name]
        return [Finding(host.name, "ssh", "bad", unreached.reason, unreached.next_step)]
    facts = observation.facts.get(host.name)
    if facts is None:
        return []
    return [finding for rule in _RULES for finding in rule(host, facts, observation)]


def _conclude(
    host: HostSpec, subject: str, brief: str, problems: Sequence[_Problem]
) -> list[Finding]:
    """Make findings of the problems, or the good one where there are none."""
    if not problems:
        return [Finding(host.name, subject, "good", "", "", brief)]
    return [Finding(host.name, subject, level, what, step, brief) for level, what, step in problems]


def _ssh(host: HostSpec, _facts: HostFacts, observation: Observation) -> list[Finding]:
    seconds = observation.connect_s.get(host.name)
    brief = "local" if host.launcher == "local" else f"{seconds or 0:.1f} s"
    return _conclude(host, "ssh", brief, ())


def _clock(host: HostSpec, _facts: HostFacts, observation: Observation) -> list[Finding]:
    reading = observation.clocks.get(host.name)
    if reading is None:
        return []
    distance_s = max(0.0, abs(reading.offset_s) - reading.uncertainty_s)
    shown_s = round(reading.offset_s, 2 if distance_s < 10 else 0)
    brief = f"{shown_s:+g} s" if shown_s else "0 s"
    problems: list[_Problem] = []
    if distance_s >= CLOCK_WARNING_S:
        level: Level = "bad" if distance_s >= CLOCK_BAD_S else "warning"
        where = "ahead of" if reading.offset_s > 0 else "behind"
        costs = "certificates may be refused, and the logs" if level == "bad" else "the logs"
        what = (
            f"its clock is {_duration(abs(reading.offset_s))} {where} the notebook's; "
            f"{costs} of the hosts cannot be put in one order"
        )
        problems.append((level, what, "Let NTP set it, for example with `chronyc makestep`."))
    return _conclude(host, "clock", brief, problems)


def _machine(host: HostSpec, facts: HostFacts, observation: Observation) -> list[Finding]:
    """Say so where two names lead to one machine: its GPUs and ports would be counted twice."""
    same = [
        other.name
        for other in observation.examined
        if other.name != host.name
        and facts.machine
        and observation.facts[other.name].machine == facts.machine
    ]
    problems: list[_Problem] = []
    if same and not observation.is_rehearsal:
        what = f"it is the same machine as {name_some(same)}"
        problems.append(("bad", what, "Name each machine once, with all the slots it shall have."))
    brief = f"{facts.cores} cores, {tell_size(facts.memory_total_bytes)}"
    return _conclude(host, "machine", brief, problems)


def _ports(host: HostSpec, facts: HostFacts, _observation: Observation) -> list[Finding]:
    if not facts.last_port:
        return []
    free = facts.last_port - facts.first_port + 1 - facts.taken_ports
    problems: list[_Problem] = []
    if free < FEWEST_PORTS:
        ports = f"{facts.first_port}-{facts.last_port}"
        what = f"only {free} of its ports {ports} are free"
        step = "See who holds them (ss -tan), or widen net.ipv4.ip_local_port_range with sysctl."
        problems.append(("warning", what, step))
    return _conclude(host, "ports", f"{free} free", problems)


def _gpus(host: HostSpec, facts: HostFacts, observation: Observation) -> list[Finding]:
    problems: list[_Problem] = []
    if facts.gpu_problem:
        what = f"its GPUs cannot be asked: {facts.gpu_problem.rstrip('.')}"
        problems.append(("warning", what, "Run nvidia-smi there and follow what it says."))
    elif not facts.gpus:
        others = [each.name for each in observation.examined if observation.facts[each.name].gpus]
        if others:
            what = f"it has no GPU, and {name_some(others)} ha{fit(others, 's', 've')}"
            problems.append(("warning", what, "Leave it out, or check its driver."))
    missing = sorted(set(host.devices) - {gpu.index for gpu in facts.gpus})
    if missing and not facts.gpu_problem:
        what = f"it has no device {name_some([str(index) for index in missing])}"
        problems.append(("bad", what, "Correct its devices in the specification."))
    usable = len(host.devices) or len(facts.gpus)
    if facts.gpus and host.slots > usable:
        what = f"{host.slots} ranks are asked for on {usable} GPUs; NCCL wants one for each rank"
        problems.append(("warning", what, f"Ask for {host.name}:{usable}."))
    problems += _occupied(host, facts)
    return _conclude(host, "gpus", _name_gpus(facts), problems)


def _occupied(host: HostSpec, facts: HostFacts) -> list[_Problem]:
    found = []
    for gpu in facts.gpus:
        users = [
            f"{each.name or 'a process'} (pid {each.pid}"
            f"{f', {each.user}' if each.user else ''}, {tell_size(each.memory_bytes)})"
            for each in facts.occupants
            if each.uuid == gpu.uuid
        ]
        if users and (not host.devices or gpu.index in host.devices):
            found.append(f"GPU {gpu.index} by {name_some(users)}")
    if not found:
        return []
    step = "Wait for them, end them, or name the free ones as its devices in a specification."
    return [("warning", f"GPUs are in use: {'; '.join(found)}", step)]


def _name_gpus(facts: HostFacts) -> str:
    kinds: dict[str, int] = {}
    for gpu in facts.gpus:
        name = gpu.name.removeprefix("NVIDIA ")
        kinds[name] = kinds.get(name, 0) + 1
    return ", ".join(f"{count} {name}" for name, count in kinds.items()) or "none"


def _limits(host: HostSpec, facts: HostFacts, _observation: Observation) -> list[Finding]:
    problems: list[_Problem] = []
    for name, least, flag, what in (
        ("nofile", FEWEST_FILES, "-n", "open files"),
        ("nproc", FEWEST_PROCESSES, "-u", "processes and threads"),
    ):
        soft, hard = facts.limits.get(name, (_UNLIMITED, _UNLIMITED))
        if soft != _UNLIMITED and soft < least:
            sentence = f"a process there may have {soft} {what}, which larger clusters exceed"
            problems.append(("warning", sentence, _raise_limit(name, flag, hard, least)))
    soft, hard = facts.limits.get("memlock", (_UNLIMITED, _UNLIMITED))
    # Without RDMA nothing pins memory in amounts that matter: CUDA's own is not counted.
    if facts.rdma and soft != _UNLIMITED and soft < LEAST_LOCKED_BYTES:
        sentence = (
            f"a process there may lock {tell_size(soft)} of memory, too little for RDMA over "
            f"{name_some(facts.rdma)}"
        )
        step = _raise_limit("memlock", "-l", hard, LEAST_LOCKED_BYTES)
        problems.append(("warning", sentence, step))
    return _conclude(host, "limits", "", problems)


def _raise_limit(name: str, flag: str, hard: int, least: int) -> str:
    if hard != _UNLIMITED and hard < least:
        return f"Raise {name} in its /etc/security/limits.conf, and log in again."
    value = hard // 1024 if name == "memlock" else hard  # which ulimit counts in KiB
    words = f"ulimit {flag} {'unlimited' if hard == _UNLIMITED else value}"
    return f"Give it the setup command `{words}` in a specification."


def _home(host: HostSpec, facts: HostFacts, observation: Observation) -> list[Finding]:
    problems: list[_Problem] = []
    if facts.home_problem:
        what = (
            f"nothing can be written to its home {facts.home} ({facts.home_problem}): "
            "libraries cannot keep there what they compile"
        )
        step = (
            "Make it writable, or let HOME lead to a directory that is, with the setup command "
            "`export HOME=…` in a specification."
        )
        problems.append(("warning", what, step))
    return _conclude(host, "home", _name_home(host, facts, observation), problems)


def _name_home(host: HostSpec, facts: HostFacts, observation: Observation) -> str:
    if facts.machine == observation.facts[NOTEBOOK].machine:
        return "local"
    seen = set(observation.homes.get(host.name, ()))
    seen |= {name for name, makers in observation.homes.items() if host.name in makers}
    same = sorted(name or "notebook" for name in seen - {host.name})
    return f"same as {name_some(same)}" if same else "its own"


def _disk(host: HostSpec, facts: HostFacts, _observation: Observation) -> list[Finding]:
    problems: list[_Problem] = []
    places = ((facts.temp_dir, facts.temp_free_bytes), ("/dev/shm", facts.memory_free_bytes))  # noqa: S108
    for folder, free in places:
        if free is not None and free < LEAST_FREE_BYTES:
            level: Level = "bad" if free < NO_SPACE_BYTES else "warning"
            step = (
                "Enlarge it: `mount -o remount,size=8G /dev/shm`, or --shm-size for a container."
                if folder == "/dev/shm"  # noqa: S108
                else "Make room there, or let TMPDIR lead elsewhere."
            )
            problems.append((level, f"{folder} has only {tell_size(free)} free", step))
    known = [free for _, free in places if free is not None]
    return _conclude(host, "disk", f"{tell_size(min(known))} free" if known else "", problems)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_RULES: tuple[_Rule, ...] = (_ssh, _clock, _machine, _ports, _gpus, _limits, _home, _disk)
