"""What was asked for: the specification of a cluster and of each of its hosts."""

import ipaddress
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.model.spec.batch import BatchSpec, check_batch
from jupyter_dist.model.spec.devices import ALL, why_not_shared
from jupyter_dist.model.spec.liveness import HealthPolicy, check_health
from jupyter_dist.model.spec.on_loss import OnLoss, parse_on_loss
from jupyter_dist.model.spec.rank_environment import HASH_SEED, HASH_SEED_VARIABLE

OLD_NAME_OF_RING = "gloo"
"""Accepted for one release, with a note at the start."""
COMMUNICATOR_KINDS = ("auto", "ring", OLD_NAME_OF_RING, "nccl", "none")
LAUNCHERS = ("auto", "local", "ssh", "join")
START_METHODS = ("auto", "fork", "spawn")
JAX_MODES = ("auto", "start", "never")
"""When ranks form JAX on their own: with the first cell that needs it, at the start, never."""
JOIN = "join"
"""In place of a name: hosts that nobody names yet, because they come on their own."""
DEFAULT_RANKS = 4
DEFAULT_HOSTS = f"localhost:{DEFAULT_RANKS}"
DEFAULT_HOST_BY_DEVICES = "localhost"
"""Instead of DEFAULT_HOSTS, where someone says how many devices an engine gets."""
MOST_HOSTS = 4096
MOST_SLOTS = 4096
MOST_CPU_DEVICES = 1024
SAMPLE_INTERVALS_S = (0.2, 60.0)
"""The shortest and the longest."""
LISTENERS = 3
"""Ports of the coordinator that hosts dial: for agents, for engines, for their heartbeats."""
MOST_DEFAULT_SLOTS = 4
"""Ranks on a host without GPUs, when nobody says how many; fewer where there are fewer cores."""
_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?")
_USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@\\-]*")
_VARIABLE = re.compile(r"[^=\0]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>ms|s|m|h|d)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


class HostSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One host, how an agent gets onto it, and what its engines find there."""

    name: str
    """As the user calls it; IPv6 addresses in brackets. Nobody else in the cluster has it."""
    slots: int = 0
    """Engines to run; 0: one for each share of devices, else for cores up to MOST_DEFAULT_SLOTS."""
    launcher: str = "auto"
    """local, ssh or join (someone else starts the agent); auto: local if it is this machine."""
    user: str = ""
    """Whom to be there; empty: what ssh's configuration says."""
    port: int = 0
    """Of its sshd; 0: what ssh's configuration says."""
    ssh: tuple[str, ...] = ("ssh",)
    """The ssh command and its options, as words."""
    python: str = ""
    """Interpreter or environment directory there; empty: the same path as here, else python3."""
    setup: tuple[str, ...] = ()
    """Shell commands before Python starts, in a login shell, as `module load cuda`."""
    env: dict[str, str] = {}
    """Variables of its ranks, added to those of the cluster."""
    cwd: str = ""
    """Working directory of its ranks; empty: the cluster's if it exists there, else home."""
    devices: tuple[int, ...] = ()
    """GPUs for its ranks, in this order, by NVML's numbers; empty: all that its agent sees."""
    interface: str = ""
    """Network for its data path, as a name (ib0) or a network (10.1.0.0/16); empty: by route."""
    tunnel: bool = False
    """Reach the coordinator through the ssh connection instead of dialing it directly."""

    @property
    def address(self) -> str:
        """The name as programs take it: IPv6 without its brackets."""
        return self.name.strip("[]")

    @property
    def is_here(self) -> bool:
        """Whether it is the coordinator's machine; for others clients turn `auto` into `ssh`."""
        return self.launcher in ("local", "auto")


KEEP_S = 900.0
"""So long a cluster that a person has started lives without a client, unless that is said."""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as asked for; every field has passed the checks of `check_spec`."""

    name: str
    hosts: tuple[HostSpec, ...]
    communicator: str = "auto"
    oversubscribe: bool = False
    """Ranks of a host may share its devices."""
    devices_per_engine: int = 1
    """GPUs that each engine sees; 0: all of its host, which then runs one engine only."""
    cpu_devices: int = 0
    """Devices that JAX makes of the cores of each engine; 0: as JAX has it, one."""
    jax: str = "auto"
    """One of JAX_MODES."""
    timeout_s: float = 60.0
    keep_s: float | None = None
    """So long it lives without a client; None: it depends on who starts it."""
    env: dict[str, str] = {}
    cwd: str = "."
    is_cwd_optional: bool = False
    """Ranks work at home where it does not exist, on the machine of the coordinator as well."""
    start_method: str = "auto"
    """How an agent starts its engines; auto: they are forked on Linux, and spawned elsewhere."""
    collective_timeout_s: float = 1800.0
    interface: str = ""
    """Network on which the coordinator listens, as a name or a network; empty: all it needs."""
    ports: str = ""
    """Ports on which it listens for them, as 47000-47009 (three or more); empty: free ones."""
    install: bool = False
    """Install this jupyter-dist on hosts that have none or another one."""
    wheelhouse: str = ""
    """Directory of wheels to install from, for hosts without internet; empty: the host's pip."""
    one_machine: bool = False
    """Several host names may lead to one machine: a rehearsal of many hosts."""
    health: HealthPolicy = HealthPolicy()
    sample_interval_s: float = 1.0
    """How often each host observes its cores, memory, GPUs and network cards."""
    on_loss: OnLoss = OnLoss.ASK
    """What it does on its own when a rank is lost."""
    save_on_preempt: str = ""
    """Where marked variables are saved before a host is taken away, a whole path; empty: not."""
    preempt_command: str = ""
    """What each agent asks whether its host will be taken away, as its shell takes it."""
    relays: Literal["auto", "all", "none"] = "auto"
    """Which hosts have a relay for their ranks; auto: those where it gains."""
    batch: BatchSpec | None = None
    """The job whose nodes are its hosts, which all join then; None: there is no job."""
    coordinator: HostSpec | None = None
    """The machine on which the coordinator runs, reached by ssh; None: on this one.

    One that joins is a node of the job, which has no name before.
    """

    @property
    def is_coordinator_in_job(self) -> bool:
        """The coordinator runs on a node of the job, which is submitted from here."""
        return self.coordinator is not None and self.coordinator.launcher == JOIN

    @property
    def world_size(self) -> int:
        """Number of ranks over all hosts; 0 while a host has not told how many it takes."""
        if any(host.slots == 0 for host in self.hosts):
            return 0
        return sum(host.slots for host in self.hosts)


def parse_duration_s(text: str) -> float:
    """Read `90`, `90s`, `15m`, `2h`, `1d` as seconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"duration {text!r} is not understood. Accepted: a number with s, m, h or d, "
            "for example 15m."
        )
    return float(match["number"]) * _UNIT_S[match["unit"]]


def parse_ports(text: str) -> range:
    """Read `47000-47009`; an empty text is an empty range: any port that is free."""
    if not text:
        return range(0)
    first, _, last = text.partition("-")
    if first.isdecimal() and last.isdecimal() and len(text) <= len("65535-65535"):
        ports = range(int(first), int(last) + 1)
        if len(ports) >= LISTENERS and ports[0] > 0 and ports[-1] < 1 << 16:
            return ports
    raise UsageError(
        f"ports {text!r} are not accepted. Give a range of {LISTENERS} or more between 1 and "
        "65535, for example 47000-47009."
    )


def parse_ssh(command: str | Sequence[str]) -> tuple[str, ...]:
    """Read an ssh command, split as in a shell unless it comes as words."""
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as problem:
        raise UsageError(
            f"ssh command {command!r} cannot be split into words: {problem}."
        ) from None
    if not words or not all(isinstance(word, str) and word for word in words):
        raise UsageError(f"ssh command {command!r} is not accepted. Give it as 'ssh -F FILE'.")
    return words


def default_timeout_s(hosts: Sequence[HostSpec]) -> float:
    """Return how long a start may take: longer where people or schedulers must act first."""
    return 600.0 if any(host.launcher == JOIN for host in hosts) else 60.0


def is_ipv6(text: str) -> bool:
    """Return whether this is an IPv6 address (without brackets)."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return _IPV6.fullmatch(text) is not None


def is_host_name(text: str) -> bool:
    """Return whether a host can have this name: letters, digits, `_.-`, or IPv6 in brackets."""
    if text.startswith("[") and text.endswith("]"):
        return is_ipv6(text[1:-1])
    return _HOST_NAME.fullmatch(text) is not None


def is_user_name(text: str) -> bool:
    """Return whether ssh can be told to log in as this user."""
    return _USER_NAME.fullmatch(text) is not None


def check_named_once(hosts: Sequence[HostSpec], given: str) -> None:
    """Raise HostSpecError when two of the hosts have one name."""
    seen: set[str] = set()
    for host in hosts:
        address = host.address.lower()
        key = ipaddress.IPv6Address(address).compressed if is_ipv6(address) else address
        if key in seen:
            raise HostSpecError(given, f"{host.name} is named twice")
        seen.add(key)


def check_spec(spec: ClusterSpec) -> ClusterSpec:
    """Return the spec, or raise UsageError for the first thing that cannot be meant."""
    if _NAME.fullmatch(spec.name) is None:
        raise UsageError(
            f"cluster name {spec.name!r} is not accepted. Use letters, digits, '-', '_' or '.', "
            "at most 64 of them."
        )
    if spec.communicator not in COMMUNICATOR_KINDS:
        raise UsageError(
            f"communicator {spec.communicator!r} is unknown. "
            f"Accepted: {', '.join(COMMUNICATOR_KINDS)}."
        )
    _check_times(spec)
    parse_on_loss(spec.on_loss)
    check_health(spec.health)
    if spec.start_method not in START_METHODS:
        raise UsageError(
            f"start method {spec.start_method!r}: accepted are {', '.join(START_METHODS)}."
        )
    _check_devices(spec)
    _check_variables(spec.env, "the cluster")
    _check_interface(spec.interface, "the cluster")
    parse_ports(spec.ports)
    _check_preemption(spec.save_on_preempt, spec.preempt_command)
    if not 0 < len(spec.hosts) <= MOST_HOSTS:
        raise UsageError(f"{len(spec.hosts)} hosts are not accepted: a cluster has 1-{MOST_HOSTS}.")
    if spec.batch is not None:
        check_batch(spec.batch, MOST_HOSTS)
    for host in (*spec.hosts, *((spec.coordinator,) if spec.coordinator else ())):
        _check_host(host)
    check_named_once(spec.hosts, ",".join(host.name for host in spec.hosts))
    return spec


def _check_times(spec: ClusterSpec) -> None:
    times = {
        "timeout": spec.timeout_s,
        "collective timeout": spec.collective_timeout_s,
    }
    for what, seconds in times.items():
        if not seconds > 0:
            raise UsageError(f"{what} {seconds} is not accepted: it must be more than 0 s.")
    if spec.keep_s is not None and not spec.keep_s >= 0:
        raise UsageError(f"keep {spec.keep_s} is not accepted: it must be 0 s or more.")
    shortest_s, longest_s = SAMPLE_INTERVALS_S
    if not shortest_s <= spec.sample_interval_s <= longest_s:
        raise UsageError(
            f"sample interval {spec.sample_interval_s:g} s is not accepted. Give "
            f"{shortest_s:g}-{longest_s:g} s; usual is 1 s."
        )


def _check_preemption(directory: str, command: str) -> None:
    """Raise UsageError for a directory or a command that cannot be meant; empty: none."""
    if (directory and not directory.startswith("/")) or "\0" in directory:
        raise UsageError(
            f"save on preempt {directory!r} is not accepted. Give the whole path of a directory "
            "that all hosts can write to, for example /scratch/alice/checkpoints."
        )
    if "\0" in command or (command and not command.strip()):
        raise UsageError(
            f"preempt command {command!r} is not accepted. Give what a shell can run, for example "
            "'curl -sf http://169.254.169.254/latest/meta-data/spot/instance-action'."
        )


def default_hosts(devices_per_engine: int) -> str:
    """Return the hosts of a cluster of which nobody has named any, as after --hosts."""
    return DEFAULT_HOSTS if devices_per_engine == 1 else DEFAULT_HOST_BY_DEVICES


def _check_devices(spec: ClusterSpec) -> None:
    """Raise UsageError for devices of engines, or a mode of JAX, that cannot be meant."""
    if spec.jax not in JAX_MODES:
        raise UsageError(f"jax {spec.jax!r} is unknown. Accepted: {', '.join(JAX_MODES)}.")
    if not 0 <= spec.cpu_devices <= MOST_CPU_DEVICES:
        raise UsageError(
            f"cpu devices {spec.cpu_devices} are not accepted. Give 1-{MOST_CPU_DEVICES} for each "
            "rank, or 0 for what JAX has on its own: one."
        )
    if spec.devices_per_engine < 0:
        raise UsageError(
            f"devices per engine {spec.devices_per_engine} are not accepted. Give 1 or more, or "
            "0 for all of a host."
        )
    if spec.devices_per_engine != 1 and spec.oversubscribe:
        raise UsageError(
            "oversubscribe lets ranks share a GPU, and devices per engine gives each of them "
            "several of its own. Leave one of both out."
        )
    for host in spec.hosts if spec.devices_per_engine == ALL else ():
        if problem := why_not_shared(host.name, host.slots, 0, ALL, is_count_asked=True):
            raise UsageError(problem)


def _check_host(host: HostSpec) -> None:
    if not is_host_name(host.name) or host.name == JOIN:
        raise HostSpecError(host.name, "no host can have this name")
    who = f"host {host.name!r}"
    problems = {
        f"user {host.user!r}: give a name without spaces": host.user
        and not is_user_name(host.user),
        f"slots {host.slots}: give 1-{MOST_SLOTS}, or 0 for as many as it has GPUs": not (
            0 <= host.slots <= MOST_SLOTS
        ),
        f"launcher {host.launcher!r}: accepted are {', '.join(LAUNCHERS)}": (
            host.launcher not in LAUNCHERS
        ),
        f"port {host.port}: give 1-65535, or 0 for what ssh's configuration says": not (
            0 <= host.port <= 65535
        ),
        "devices: name each only once, from 0 on": (
            len(set(host.devices)) < len(host.devices) or min(host.devices, default=0) < 0
        ),
        "setup: each command stands on one line": any(
            not command.strip() or "\n" in command for command in host.setup
        ),
    }
    for problem, is_there in problems.items():
        if is_there:
            raise UsageError(f"{who}, {problem}.")
    parse_ssh(host.ssh)
    _check_variables(host.env, who)
    _check_interface(host.interface, who)


def _check_variables(env: Mapping[str, str], who: str) -> None:
    if env.get(HASH_SEED_VARIABLE, HASH_SEED) != HASH_SEED:
        raise UsageError(
            f"environment of {who}: {HASH_SEED_VARIABLE} = {env[HASH_SEED_VARIABLE]!r} is not "
            f"accepted. It is {HASH_SEED} for all ranks, from before they are born, so that sets "
            "have the same order on each of them. Leave it out."
        )
    for key, value in env.items():
        if _VARIABLE.fullmatch(key) is None or not isinstance(value, str) or "\0" in value:
            raise UsageError(
                f"environment of {who}: {key!r} = {value!r} is not accepted. Accepted: a name "
                "without '=' and a string, for example OMP_NUM_THREADS=1."
            )


def _check_interface(interface: str, who: str) -> None:
    if "/" not in interface:
        return
    try:
        ipaddress.ip_network(interface, strict=False)
    except ValueError as problem:
        raise UsageError(
            f"interface {interface!r} of {who} is not a network ({problem}). Accepted: the name "
            "of an interface, or a network such as 10.1.0.0/16."
        ) from None
