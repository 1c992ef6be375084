"""Makes the communicator of a generation: what a Welcome brings, put together."""

import socket

from jupyter_dist.collective.communicator import Communicator, NoCommunicator
from jupyter_dist.collective.control import Control
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.engine.collectives.peers import Peers
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.messages import Welcome
from jupyter_dist.protocol.places import ranks_by_host


def make_communicator(
    welcome: Welcome,
    listener: socket.socket,
    timeout_s: float,
    recorder: CollectiveRecorder,
    control: Control | None,
    held: HeldTime,
) -> Communicator:
    """Make the communicator that the cluster was started with; it takes the listener over.

    Deadlines of its calls stand still while `held` says so. Raises OSError, ValueError and
    CommunicatorError when it cannot be formed.
    """
    info = welcome.info
    group = Group(info.rank, info.world_size, welcome.generation)
    if welcome.communicator == "none":
        listener.close()
        reason = "the cluster was started with --comm none"
        communicator: Communicator = NoCommunicator(group, reason, recorder, control)
    else:
        peers = Peers(welcome.peers, control, timeout_s)
        transport = RingTransport(
            group,
            listener,
            peers,
            welcome.key,
            host_of=peers.host_of,
            hosts=ranks_by_host(welcome.hosts),
        )
        host = HostCommunicator(group, transport, recorder, control)
        host.log.scope.held = held
        transport.hold_with(held)
        communicator = NcclCommunicator(host) if welcome.communicator == "nccl" else host
    communicator.timeout_s = timeout_s
    return communicator
