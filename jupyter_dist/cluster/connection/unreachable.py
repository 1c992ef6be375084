"""What is said of a coordinator on another machine: out of reach, or out of sight."""

from time import time

from jupyter_dist.errors import ClusterGone, ClusterUnreachable
from jupyter_dist.launch.files.connection_file import ConnectionInfo
from jupyter_dist.launch.proxy.outage import read_outage


def unreachable(info: ConnectionInfo) -> ClusterUnreachable:
    """Return the error for what cannot wait."""
    why = describe_break(info) or f"{info.coordinator_host} does not answer"
    return ClusterUnreachable(info.name, why, info.coordinator_pid)


def describe_break(info: ConnectionInfo) -> str:
    """Return since when and why the connection is broken; empty where it is not known to be."""
    outage = read_outage(info.log_path)
    if outage is None:
        return ""
    passed_s = max(0.0, time() - outage.since_s)
    return (
        f"{info.coordinator_host} is out of reach for {passed_s:.0f} s ({outage.why.rstrip('.')})"
    )


def out_of_sight(info: ConnectionInfo) -> ClusterGone:
    """Return the error where what stands for it here has ended: with it, or alone."""
    host = info.coordinator_host
    return ClusterGone(
        info.name,
        f"what stands here for its coordinator on {host} (process {info.coordinator_pid}) has "
        "ended, as it does with the cluster",
        f"If it was killed, the cluster goes on there: %dist_attach {info.name} --coordinator "
        f"{host} finds it, or says that it has ended. Or start a new one with %dist_start.",
        may_go_on=True,
    )
