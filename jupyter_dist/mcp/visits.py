"""A look at a cluster for one call: connected as what it is, an AI agent, and left again."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.errors import ClusterGone, DistError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.text.lists import group_pairs, name_some

AGENT: ContextVar[str] = ContextVar("AGENT", default="an AI agent")
"""Who calls, as its MCP client has named itself."""
_COMING = ("starting",)


def connect(name: str, grant: str = "") -> Cluster:
    """Connect for an agent; raise what says how a cluster is found, or a grant given."""
    cluster = Cluster.visit(name.strip() or None, await_ready=False)
    try:
        cluster.assist(AGENT.get(), grant.strip())
        topology = cluster.topology()
        if topology.state == "gone":
            raise ClusterGone(cluster.name, "its coordinator does not answer")
        if topology.state in _COMING:
            raise DistError(f"cluster {cluster.name!r} is still starting: ask again when it runs.")
        cluster.await_ready()
    except BaseException:
        cluster.detach()
        raise
    return cluster


@contextmanager
def visit(name: str, grant: str = "") -> Iterator[Cluster]:
    """Connect for one call."""
    cluster = connect(name, grant)
    try:
        yield cluster
    finally:
        cluster.detach()


def describe(topology: Topology) -> str:
    """Return the cluster, its ranks by state, and its hosts, in one line."""
    states = group_pairs((engine.state, engine.rank) for engine in topology.engines)
    told = [f"{name_ranks(ranks)} {state}" for state, ranks in states.items()]
    hosts = name_some([host.name for host in topology.hosts])
    return f"cluster {topology.cluster}: {', '.join(told) or topology.state} on {hosts}"
