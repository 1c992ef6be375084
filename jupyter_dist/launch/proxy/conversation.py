"""What the two ends of the ssh connection to a coordinator say to each other.

One that is in a batch job gets its order from a file, and reports to another one beside it: first
the place where it is, then as any coordinator.
"""

from pathlib import Path

import msgspec

from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec

GREETING = "jupyter-dist coordinator "
"""The far end says this and an AgentHello in JSON before anything else."""
KEEP = b"keep\n"
"""The coordinator shall live on when this connection ends."""
KEPT = b"kept\n"
"""The far end has heard that."""
END = b"end\n"
"""The coordinator shall end."""
CLUSTER_ENDED = 93
"""Exit status of the far end when there is no such coordinator, or none any more."""


class RemoteOrder(msgspec.Struct, frozen=True):
    """What the far end is to do: start a coordinator, or find the one that runs."""

    name: str
    spec: ClusterSpec | None = None
    """What is to be started; None: the cluster of this name runs."""
    runtime_dir: str = ""
    """Where its connection file is; empty: in that of Jupyter's folders for logins there."""


class JobOrder(msgspec.Struct, frozen=True):
    """What the first node of a job is to do; it is in the job's own directory, with mode 0600."""

    wire: str
    """Version of all else that is said; another one reads no further."""
    good_until_s: float
    """In seconds since 1970; after that the start has been given up."""
    spec: msgspec.Raw
    """The ClusterSpec, for one of the same version."""


class JobPlace(msgspec.Struct, frozen=True):
    """Where the coordinator of a job is, as its first line says."""

    host: str
    """The node, as it calls itself."""
    runtime_dir: str
    """Where its connection file is."""


def report_path(order_path: Path) -> Path:
    """Return where the coordinator with this order reports."""
    return order_path.with_suffix(".report")


class ProxyOrder(msgspec.Struct, frozen=True):
    """What the process on this machine is to do."""

    host: HostSpec
    """Where the coordinator is, and how ssh gets there."""
    remote: RemoteOrder
