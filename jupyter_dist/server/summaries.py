"""A cluster in one row of the list."""

import msgspec

from jupyter_dist.launch.files.connection_file import ConnectionInfo
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import KernelRole

_WORKING = ("busy", "collective", "hung")


class ClusterRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the list says of a cluster; numbers are of ranks."""

    name: str
    coordinator_pid: int = 0
    """Tells it from another one of the same name, before it or after it."""
    state: str
    """As a Topology has it, or silent: its coordinator lives and does not answer."""
    world_size: int = 0
    """0 while its hosts have not told how many ranks they take."""
    hosts: tuple[str, ...] = ()
    busy: int = 0
    """Ranks that run a cell, those that hang among them."""
    hung: int = 0
    lost: int = 0
    note: str = ""
    """One sentence about what needs attention, or empty."""
    cell: str = ""
    """Label of the running cell, as `In[3]`, or empty."""
    owner: str = ""
    """The owner, as `notebook train.ipynb`; empty: there is none."""
    kernels: tuple[KernelRole, ...] = ()
    """Notebooks that own or observe it; those of the page among them belong to it."""


def row_of(
    topology: Topology,
    *,
    info: ConnectionInfo | None = None,
    owner: str = "",
    kernels: tuple[KernelRole, ...] = (),
    silence: str = "",
) -> ClusterRow:
    """Sum a cluster up; `info` is its connection file, which knows hosts that have not joined yet.

    `silence` says since when it has not answered.
    """
    engines = topology.engines
    states = [engine.state for engine in engines]
    asked_hosts, asked_ranks = (info.hosts, info.world_size) if info is not None else ((), 0)
    return ClusterRow(
        name=topology.cluster,
        coordinator_pid=info.coordinator_pid if info is not None else 0,
        state="silent" if silence else topology.state,
        world_size=len(engines) or asked_ranks,
        hosts=tuple(host.name for host in topology.hosts or asked_hosts),
        busy=sum(state in _WORKING for state in states),
        hung=states.count("hung"),
        lost=states.count("lost"),
        note=silence or topology.note,
        cell=next((engine.cell for engine in engines if engine.cell), ""),
        owner=owner,
        kernels=kernels,
    )
