"""What the doctor saw on hosts without a cluster, and what it finds."""

from typing import Literal, TypeAlias

import msgspec

from jupyter_dist.model.hosts.interfaces import Interface
from jupyter_dist.model.spec.cluster_spec import HostSpec

NOTEBOOK = ""
"""In place of a host's name: the machine of the notebook, as its own Python sees it."""
Level: TypeAlias = Literal["good", "warning", "bad"]
LEVELS: tuple[Level, ...] = ("good", "warning", "bad")
"""From best to worst; bad: a cluster would not start here, or would not work."""
SUBJECTS = (
    "ssh",
    "python",
    "jupyter-dist",
    "versions",
    "clock",
    "machine",
    "network",
    "ports",
    "gpus",
    "limits",
    "home",
    "disk",
)


class Finding(msgspec.Struct, frozen=True):
    """One thing that was found about one host."""

    host: str
    """Empty: it concerns all of them."""
    subject: str
    """One of SUBJECTS."""
    level: Level
    what: str
    """One sentence that does not name the host; empty where all is as it should be."""
    next_step: str = ""
    brief: str = ""
    """A word or two for the table."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a host."""

    index: int
    uuid: str
    name: str = ""
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0


class Occupant(msgspec.Struct, frozen=True, kw_only=True):
    """A process that uses a GPU now."""

    uuid: str
    """Of the GPU."""
    pid: int
    name: str = ""
    user: str = ""
    """Empty where the process is in another container."""
    memory_bytes: int = 0


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What probe/host_report.py tells; what a system does not tell has its default."""

    python: str = ""
    executable: str = ""
    versions: dict[str, str] = {}
    wire: str = ""
    """Version of what our processes say to each other; empty where ours cannot be imported."""
    release: str = ""
    import_problem: str = ""
    gpus: tuple[Gpu, ...] = ()
    occupants: tuple[Occupant, ...] = ()
    gpu_problem: str = ""
    interfaces: tuple[Interface, ...] = ()
    rdma: tuple[str, ...] = ()
    first_port: int = 0
    last_port: int = 0
    taken_ports: int = 0
    limits: dict[str, tuple[int, int]] = {}
    """(soft, hard) of each; -1: no limit."""
    home: str = ""
    home_problem: str = ""
    """Why nothing can be written there, or empty."""
    temp_dir: str = ""
    temp_free_bytes: int | None = None
    memory_free_bytes: int | None = None
    """Of /dev/shm."""
    cores: int = 0
    memory_total_bytes: int = 0
    machine: str = ""
    """The same for two hosts only if they share kernel and network."""
    proxies: tuple[str, ...] = ()
    """Names of the proxy variables that are set."""
    no_proxy: str = ""


class Unreached(msgspec.Struct, frozen=True):
    """Why a host could not be examined."""

    reason: str
    """A sentence fragment."""
    next_step: str


class ClockReading(msgspec.Struct, frozen=True):
    """How far a host's clock is ahead of the notebook's."""

    offset_s: float
    uncertainty_s: float


class Attempt(msgspec.Struct, frozen=True):
    """One connection that a host tried."""

    source: str
    target: str
    address: str
    outcome: str
    """ok, refused, silent, unreachable, other (someone else is there), or the system's words."""
    own_address: str = ""
    """The source's end of the connection."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one examination saw; hosts that were not reached have no facts."""

    hosts: tuple[HostSpec, ...]
    facts: dict[str, HostFacts]
    """By host, NOTEBOOK among them."""
    unreached: dict[str, Unreached] = {}
    connect_s: dict[str, float] = {}
    """How long each host took until it answered."""
    clocks: dict[str, ClockReading] = {}
    attempts: tuple[Attempt, ...] = ()
    homes: dict[str, tuple[str, ...]] = {}
    """Host -> those whose home directories are its own as well, as far as was looked."""
    interface: str = ""
    """The network that was asked for, for hosts that name none."""
    ports: str = ""
    """Those of the notebook's machine that were asked for, as 47000-47009; empty: any."""
    is_rehearsal: bool = False
    """Several names may lead to one machine."""
    will_install: bool = False

    @property
    def examined(self) -> tuple[HostSpec, ...]:
        """The hosts that there are facts of."""
        return tuple(host for host in self.hosts if host.name in self.facts)


class Diagnosis(msgspec.Struct, frozen=True):
    """What an examination found."""

    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    versions: dict[str, dict[str, str]]
    """Package -> host -> version, NOTEBOOK among the hosts; missing where it is missing."""

    @property
    def is_good(self) -> bool:
        """Nothing keeps a cluster from working; there may be warnings."""
        return all(finding.level != "bad" for finding in self.findings)

    def of(self, host: str, subject: str) -> tuple[Finding, ...]:
        """Return what was found about a subject on a host, the worst first."""
        found = [each for each in self.findings if (each.host, each.subject) == (host, subject)]
        return tuple(sorted(found, key=lambda each: -LEVELS.index(each.level)))
