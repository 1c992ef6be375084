"""What was observed: hosts, the engines on them, and what joins them. This is what views draw."""

import msgspec

from jupyter_dist.model.hosts.axes import NO_AXES, Axes


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
    awaits: tuple[int, ...] = ()
    """Ranks of the cluster whose data has not come; none: that is not known, or they are many."""


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
    gpu_memory_bytes: int = 0
    """What its process uses on its GPUs; 0: unknown."""
    device: int | None = None
    """Its first GPU, by NVML's number."""
    devices: tuple[int, ...] = ()
    """All of its GPUs."""
    cell: str = ""
    """Label of the running cell, as `In[3]`, or empty."""
    busy_s: float = 0.0
    collective: CollectiveView | None = None


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a GPU that is none of this cluster's."""

    pid: int
    name: str = ""
    memory_bytes: int = 0
    """0: the driver does not tell."""


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a host; 0, empty or false where the driver does not tell."""

    index: int
    """NVML's."""
    name: str = ""
    utilisation_percent: float = 0.0
    memory_used_bytes: int = 0
    memory_total_bytes: int = 0
    power_w: float = 0.0
    power_limit_w: float = 0.0
    temperature_c: float = 0.0
    ecc_errors: int = 0
    """Uncorrected ones since the driver was loaded."""
    xid: int = 0
    """The last critical error that the driver told of, by its number; 0: none since the start."""
    xid_age_s: float = 0.0
    pcie_generation: int = 0
    pcie_lanes: int = 0
    """At this moment: idle links are slower."""
    mig: str = ""
    """`on`, or as `3 instances`; empty: off."""
    is_throttled: bool = False
    """Slowed down because it is too hot, or its power supply says so."""
    strangers: tuple[GpuProcess, ...] = ()
    problem: str = ""
    """Why it does not answer any more, as NVML says; empty: it does."""


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


class LinkGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What joins each two of some GPUs of one host.

    The path between two GPUs is that of the smallest group that holds both, NVLink before all
    others.
    """

    kind: str
    """nvlink; or, as nvidia-smi calls it, PIX, PXB, PHB, NODE or SYS: from one PCIe switch to
    paths between CPUs."""
    gpus: tuple[int, ...]
    """NVML's numbers, ascending."""
    lanes: int = 0
    """NVLinks that each two share; 0: another kind."""
    is_switched: bool = False
    """Through NVSwitches: each GPU has all its lanes to any other."""


class NicView(msgspec.Struct, frozen=True, kw_only=True):
    """One network interface of a host."""

    name: str
    speed_mbps: int = 0
    """0: unknown."""
    rdma: str = ""
    """Its RDMA device, as `mlx5_0`; empty: none."""
    is_up: bool = True
    numa_node: int = -1
    """-1: unknown."""
    nearest_gpus: tuple[int, ...] = ()
    """Those with the shortest way to it, by NVML's numbers."""
    distance: str = ""
    """That way: PIX, PXB, NODE or SYS; empty: unknown."""


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
    links: tuple[LinkGroup, ...] = ()
    gpu_links: tuple[GpuLinks, ...] = ()
    nics: tuple[NicView, ...] = ()
    numa_nodes: int = 0
    """0: unknown."""
    sampled_s: float = 0.0
    """Age of the numbers of this host and its GPUs: of the oldest."""
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
    job: str = ""
    """The batch job that its agents run in, as `Slurm job 12, RUNNING`; empty: there is none."""
    hosts: tuple[HostView, ...] = ()
    axes: Axes = NO_AXES

    @property
    def engines(self) -> tuple[EngineView, ...]:
        """Every engine in rank order."""
        found = (engine for host in self.hosts for engine in host.engines)
        return tuple(sorted(found, key=lambda engine: engine.rank))
