"""How a cluster is, for reading."""

from collections.abc import Sequence

import msgspec

from jupyter_dist.model.hosts.axes import write_sizes
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology
from jupyter_dist.text.lists import group_pairs, name_some
from jupyter_dist.text.plurals import count_of
from jupyter_dist.text.sizes import tell_size


class ClusterStatus(msgspec.Struct, frozen=True):
    """The state of a cluster; `str()` is a table."""

    topology: Topology

    @property
    def state(self) -> str:
        """Tell starting, ready, stopping, stopped or gone."""
        return self.topology.state

    @property
    def ranks(self) -> dict[int, str]:
        """State of each rank."""
        return {engine.rank: engine.state for engine in self.topology.engines}

    def __str__(self) -> str:
        topology = self.topology
        hosts = count_of(len(topology.hosts), "host")
        facts = (topology.state, f"generation {topology.generation}")
        ranks = f"{len(topology.engines)} ranks on {hosts}"
        lines = [f"cluster {topology.cluster!r}: {', '.join((*facts, ranks))}"]
        axes = f"axes {write_sizes(topology.axes.shape)}" if topology.axes else ""
        lines += filter(None, (topology.job, topology.note, axes))
        if len(topology.hosts) > 1:
            lines += [_describe_host(host) for host in topology.hosts]
            lines += _describe_ways(topology.hosts)
        lines.append(
            f"{'rank':>4}  {'host':<16} {'pid':>8}  {'state':<10} {'CPU':>5} {'memory':>8}"
        )
        for host in topology.hosts:
            lines.extend(_describe_engine(host.name, engine) for engine in host.engines)
        return "\n".join(lines)


def _describe_host(host: HostView) -> str:
    ranks = name_ranks(engine.rank for engine in host.engines)
    where = f"{host.address} on {host.interface}" if host.interface else host.address
    gpus = f", {len(host.gpus)} GPUs" if host.gpus else ""
    facts = f"{host.cpu_count} cores{gpus}" if host.cpu_count else ""
    parts = [host.state, ranks, where, facts]
    return f"host {host.name}: {', '.join(part for part in parts if part)}"


def _describe_ways(hosts: Sequence[HostView]) -> list[str]:
    """Say by which address agents came home, where not all of them worked."""
    ways = group_pairs(
        ((host.home_address, host.failed_addresses), host.name)
        for host in hosts
        if host.failed_addresses
    )
    return [
        f"{name_some(names)} came home by {home}; {'; '.join(failed)}"
        for (home, failed), names in ways.items()
    ]


def _describe_engine(host: str, engine: EngineView) -> str:
    what = engine.reason
    if engine.cell and not what:
        what = f"{engine.cell} for {engine.busy_s:.0f} s"
    return (
        f"{engine.rank:>4}  {host:<16} {engine.pid:>8}  {engine.state:<10} "
        f"{engine.cpu_percent:>4.0f}% {tell_size(engine.rss_bytes):>8}  {what}"
    ).rstrip()
