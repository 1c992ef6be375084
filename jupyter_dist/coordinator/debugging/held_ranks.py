"""Which ranks are stopped in a debugger: while there are any, deadlines stand still."""

from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import EngineRecord, Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.messages import (
    HoldDeadlines,
    LeftDebugger,
    RanksStopping,
    StopNow,
    StoppedInDebugger,
    StopRanks,
)


class HeldRanks:
    """Takes in what ranks say of their stops, and has all ranks hold their deadlines."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster, self._sender = roster, sender
        self.time = HeldTime()
        """When deadlines stood still: time limits and meetings go by its clock."""

    def on_engine(
        self, engine: EngineRecord, message: StoppedInDebugger | LeftDebugger, now_s: float
    ) -> None:
        """Take in that a rank is stopped, or goes on."""
        engine.stopped_at = message.place if isinstance(message, StoppedInDebugger) else ""
        self.look(now_s)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that are stopped."""
        return tuple(each.info.rank for each in self._roster.present() if each.stopped_at)

    def look(self, now_s: float) -> None:
        """Hold deadlines, or let them go on; a stopped rank may have been lost."""
        is_held = bool(self.ranks)
        if is_held == self.time.is_held:
            return
        (self.time.hold if is_held else self.time.release)(now_s)
        self._sender.to_engines(self._roster.present_ranks(), HoldDeadlines(is_held))

    def on_request(self, client: bytes, message: StopRanks, _now_s: float) -> None:
        """Have ranks stop that run a cell; tell the client which."""
        wanted = message.ranks or tuple(range(self._roster.world_size))
        busy = set(self._roster.ranks_in(EngineState.BUSY)).difference(self.ranks)
        targets = tuple(sorted(busy.intersection(wanted)))
        self._sender.to_engines(targets, StopNow())
        self._sender.to_client(client, RanksStopping(message.request_id, targets))
