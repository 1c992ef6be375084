"""The communicator that `%%spmd` cells see as `comm`: what every kind of it can do."""

from collections.abc import Sequence
from typing import Any, NoReturn

from jupyter_dist.collective.along_axes import AlongAxes
from jupyter_dist.collective.control import Control
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.nccl.communicator import NcclCommunicator
from jupyter_dist.collective.objects.object_collectives import ObjectCollectives
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.errors import CommunicatorError


class NoCommunicator(AlongAxes, ObjectCollectives):
    """Stands where a communicator would be; each method says how to get one.

    Object collectives work all the same: they need the control channel only.
    """

    kind = "none"
    stream = None

    def __init__(
        self,
        group: Group,
        reason: str = "",
        recorder: CollectiveRecorder | None = None,
        control: Control | None = None,
    ) -> None:
        super().__init__(group, recorder, control)
        self.reason = reason or "this cluster was started without one (comm=none)"
        self.timeout_s = 60.0
        self.check = False
        self.participants: frozenset[int] | None = None

    def _refuse(self, *_args: Any, **_keywords: Any) -> NoReturn:
        """Raise CommunicatorError, whatever was asked for."""
        raise CommunicatorError(
            f"there is no communicator: {self.reason}. Start the cluster with "
            "`%dist_start --comm auto` to get one."
        )

    all_reduce = broadcast = reduce = all_gather = reduce_scatter = all_to_all = _refuse
    gather = scatter = send = recv = send_recv = group = split = _split_off = _refuse

    def barrier(
        self,
        name: str = "",
        *,
        ranks: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Wait until every rank is here, over the control channel."""
        self.object_barrier(name, ranks=ranks, timeout_s=timeout_s)

    def _do_nothing(self, *_args: Any, **_keywords: Any) -> None:
        """Do nothing: without calls there is nothing to wait for, to break or to release."""

    look = settle = lost_error = abort = close = _do_nothing


Communicator = HostCommunicator | NcclCommunicator | NoCommunicator
"""What cells have as `comm`; see BaseCommunicator for what they can rely on."""
