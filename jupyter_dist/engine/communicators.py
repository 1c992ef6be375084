"""Makes the communicator of a generation: what a Welcome brings, put together."""

import socket

from jupyter_dist.collective.communicator import Communicator, NoCommunicator
from jupyter_dist.collective.control import Control
from jupyter_dist.collective.gloo.transport import GlooTransport
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.collective.transport import HostTransport
from jupyter_dist.protocol.messages import Welcome


def make_communicator(
    welcome: Welcome,
    listener: socket.socket,
    timeout_s: float,
    recorder: CollectiveRecorder,
    control: Control | None,
) -> Communicator:
    """Make the communicator that the cluster was started with; it takes the listener over.

    Raises OSError, ValueError and CommunicatorError when it cannot be formed.
    """
    info = welcome.info
    group = Group(info.rank, info.world_size, welcome.generation)
    if welcome.communicator == "none":
        listener.close()
        reason = "the cluster was started with --comm none"
        none = NoCommunicator(group, reason, recorder, control)
        none.timeout_s = timeout_s
        return none
    transport = _make_transport(welcome, group, listener, control)
    communicator = HostCommunicator(group, transport, recorder, control)
    communicator.timeout_s = timeout_s
    return NcclCommunicator(communicator) if welcome.communicator == "nccl" else communicator


def _make_transport(
    welcome: Welcome, group: Group, listener: socket.socket, control: Control | None
) -> HostTransport:
    if welcome.communicator != "gloo":
        return RingTransport(group, listener, welcome.peers, welcome.key, welcome.hosts)
    # Gloo opens listeners of its own, at the same address.
    host = listener.getsockname()[0]
    listener.close()
    assert control is not None, "gloo's members find each other over the control channel"
    return GlooTransport(group, host, control)
