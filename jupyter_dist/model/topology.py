"""What was observed: hosts, the engines on them, and what joins them. This is what views draw."""

import msgspec


class CollectiveView(msgspec.Struct, frozen=True):
    """The last collective call of a rank, as its recorder left it."""

    sequence: int
    operation: str
    seconds: float
    """How long it has been inside (when `is_running`), or how long it took."""
    is_running: bool
    site: str = ""
    """Where the cell called it, as `In[3]:7`."""
    group: str = ""
    """Ranks of a communicator that was split off, as `0,2`; empty for the one of all ranks."""
    arguments: str = ""
    """What it was given, as `float32[4], sum`."""
    root: int = -1
    """Its root or, of a message, the other rank, as its communicator counts; -1: none."""
    is_earlier: bool = False
    """It was begun before the cell that runs now: its number may be of another communicator."""


class EngineView(msgspec.Struct, frozen=True, kw_only=True):
    """One rank for the screen. Bytes and seconds; ages are relative to the snapshot."""

    rank: int
    local_rank: int
    pid: int = 0
    state: str = "starting"
    """starting, idle, busy, collective, hung, lost or left."""
    reason: str = ""
    """Why it is lost, or whom it waits for, as a sentence."""
    beat_age_s: float = 0.0
    cpu_percent: float = 0.0
    rss_bytes: int = 0
    device: int | None = None
    cell: str = ""
    """Label of the running cell, as `In[3]`, or empty."""
    busy_s: float = 0.0
    collective: CollectiveView | None = None


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a host."""

    index: int
    name: str = ""
    utilisation_percent: float = 0.0
    memory_used_bytes: int = 0
    memory_total_bytes: int = 0


class GpuLinks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What connects one GPU with the others; 0 where the driver does not tell."""

    index: int
    uuid: str = ""
    name: str = ""
    pcie_generation: int = 0
    pcie_lanes: int = 0
    """At most, by generation and lanes: idle links are slower."""
    nvlink_version: int = 0
    nvlink_count: int = 0
    """Links that are up."""


class LinkView(msgspec.Struct, frozen=True):
    """What joins two GPUs of one host."""

    a: int
    b: int
    kind: str
    lanes: int = 0


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """One host and everything on it."""

    name: str
    state: str = "starting"
    """starting, up or lost."""
    address: str = ""
    """Own address on the data path, and the name of its interface (empty: loopback)."""
    interface: str = ""
    interface_mbps: int = 0
    """Speed of that interface; 0: unknown."""
    home_address: str = ""
    """The coordinator's address by which its agent came."""
    failed_addresses: tuple[str, ...] = ()
    """Other addresses of the coordinator that it tried, each with what came of it."""
    cpu_count: int = 0
    cpu_percent: float = 0.0
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    gpus: tuple[GpuView, ...] = ()
    links: tuple[LinkView, ...] = ()
    gpu_links: tuple[GpuLinks, ...] = ()
    engines: tuple[EngineView, ...] = ()


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """The whole cluster at one moment."""

    cluster: str
    state: str = "starting"
    """starting, ready, stopping, stopped or gone."""
    generation: int = 0
    sequence: int = 0
    """Grows with each snapshot."""
    note: str = ""
    """One sentence about what needs attention, or empty."""
    hosts: tuple[HostView, ...] = ()

    @property
    def engines(self) -> tuple[EngineView, ...]:
        """Every engine in rank order."""
        found = (engine for host in self.hosts for engine in host.engines)
        return tuple(sorted(found, key=lambda engine: engine.rank))
