"""Find a cluster on the machine where its coordinator runs, and have a proxy stand for it here."""

from collections.abc import Sequence

from msgspec.structs import replace

from jupyter_dist.cluster.connection.coordinator_process import CoordinatorProcess
from jupyter_dist.cluster.spec.checks import check_system
from jupyter_dist.cluster.spec.host_list import parse_coordinator
from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import ConnectionInfo, find_connection
from jupyter_dist.launch.for_coordinator import is_here
from jupyter_dist.launch.proxy.conversation import ProxyOrder, RemoteOrder
from jupyter_dist.model.spec.cluster_spec import JOIN, ClusterSpec, parse_ssh

_TIMEOUT_S = 60.0


def reach_cluster(
    name: str | None, coordinator: str, ssh: str | Sequence[str] | None, python: str | None
) -> str | None:
    """Have this machine know a cluster whose coordinator runs on another one; return its name.

    Clients find it as any other from then on. Raise UsageError, also where a cluster with this
    name is known here on another machine, and StartFailed.
    """
    host = parse_coordinator(coordinator)
    if host is not None and host.launcher == JOIN:
        raise UsageError(
            f"coordinator {coordinator!r} is no machine at which a cluster can be looked for. Name "
            "the node that it runs on, as the scheduler does (Slurm: squeue)."
        )
    if host is None or (is_here(host.address) and not host.user):
        return name
    if name is None:
        raise UsageError(
            f"which cluster on {host.name}? Give its name; `jupyter dist list` there tells those "
            "that run."
        )
    known = find_connection(name)
    if known is not None:
        if known.coordinator_host == host.name:
            return name
        raise UsageError(_name_other(known, host.name))
    host = replace(host, ssh=parse_ssh(ssh) if ssh else host.ssh, python=python or "")
    spec = ClusterSpec(name=name, hosts=(), timeout_s=_TIMEOUT_S, coordinator=host)
    check_system(spec)
    process = CoordinatorProcess(spec, ProxyOrder(host, RemoteOrder(name)))
    try:
        process.send_order()
        process.wait_for_report(_TIMEOUT_S)
    except BaseException:
        process.end()
        raise
    return name


def _name_other(known: ConnectionInfo, given: str) -> str:
    """Say where the cluster runs that has this name here, and how each of both is reached."""
    where, way = "this machine", f"stop that (`jupyter dist stop {known.name}`)"
    if known.coordinator_host:
        where = known.coordinator_host
        way = f"have this machine forget that, which goes on: `kill {known.coordinator_pid}`"
    return (
        f"cluster {known.name!r} is known here on {where}, not on {given}. To attach to it: "
        f"%dist_attach {known.name}. If you mean another one, first {way}."
    )
