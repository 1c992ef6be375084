"""What clients ask of hosts and axes: which ranks are where, and what the axes are called."""

from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Handlers, Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.axes import Axes, lay_out
from jupyter_dist.protocol.messages import LocateRanks, NameAxes, RanksLocated


class AxesNaming:
    """Answers where ranks are, and names axes over them."""

    def __init__(self, roster: Roster, rendezvous: Rendezvous, sender: Sender) -> None:
        self._roster, self._rendezvous, self._sender = roster, rendezvous, sender

    def handlers(self) -> Handlers:
        """Return what takes which message."""
        return {LocateRanks: self.on_locate, NameAxes: self.on_name}

    def on_locate(self, client: bytes, request: LocateRanks | NameAxes, _now_s: float) -> None:
        """Tell which ranks are on which host, and along which axes."""
        hosts = {
            host: tuple(engine.info.rank for engine in engines)
            for host, engines in self._roster.by_host().items()
        }
        located = RanksLocated(request.request_id, hosts, self._roster.axes)
        self._sender.to_client(client, located)

    def on_name(self, client: bytes, request: NameAxes, now_s: float) -> None:
        """Name axes, or drop those that there are; refuse those that do not fit the ranks."""
        roster = self._roster
        try:
            given = list(zip(request.names, request.sizes, strict=True))
            axes = Axes()
            if request.names:
                axes = lay_out(given, roster.world_size, roster.hosts, request.order)
        except ValueError as mistake:
            self._sender.refuse(client, request.request_id, ErrorCode.USAGE_ERROR, str(mistake))
            return
        self._rendezvous.take_axes(axes)
        self.on_locate(client, request, now_s)
