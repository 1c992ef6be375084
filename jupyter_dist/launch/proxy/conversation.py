"""What the two ends of the ssh connection to a coordinator say to each other."""

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


class ProxyOrder(msgspec.Struct, frozen=True):
    """What the process on this machine is to do."""

    host: HostSpec
    """Where the coordinator is, and how ssh gets there."""
    remote: RemoteOrder
