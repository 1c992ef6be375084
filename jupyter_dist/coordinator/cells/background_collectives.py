"""Meetings outside of cells: threads of ranks go on with what a cell has begun.

They do not end with a cell, nor with a generation, which every error of a cell brings about: they
last as long as all ranks that began them live.
"""

from jupyter_dist.coordinator.cells.control_collectives import ControlCollectives
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.clock import NEVER, TICK_S
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.background_ids import generation_of
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import CollectiveFailed, JoinCollective, WithdrawCollective

IDLE_SETS = 8
"""Sets of meetings that are kept for stragglers, though nobody waits in them."""

_WAS_LOST = "was lost"


class BackgroundCollectives:
    """The meetings of threads, by the generation in which they began."""

    def __init__(
        self, roster: Roster, rendezvous: Rendezvous, sender: Sender, held: HeldTime
    ) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._sender, self._held = sender, held
        self._sets: dict[int, ControlCollectives] = {}

    def on_message(
        self, message: JoinCollective | WithdrawCollective, frames: list[Frame], now_s: float
    ) -> None:
        """Let a rank take part, or leave; who began before a loss is told of it at once."""
        generation = generation_of(message.cell_id)
        if generation is None:
            return
        if not self._rendezvous.is_whole_since(generation):
            if isinstance(message, JoinCollective):
                lost = (self._rendezvous.lost_rank,)
                failed = CollectiveFailed(message.cell_id, message.topic, "left", lost, _WAS_LOST)
                self._sender.to_engine(message.rank, failed)
            return
        meetings = self._sets.get(generation)
        if meetings is None:
            ranks = range(self._roster.world_size)
            meetings = self._sets[generation] = ControlCollectives(
                message.cell_id, ranks, self._sender, self._held
            )
            self._forget_oldest()
        if isinstance(message, JoinCollective):
            meetings.on_attend(message, frames, now_s)
        else:
            meetings.on_leave(message)

    def tick(self, now_s: float) -> float:
        """Fail the meetings that cannot be held any more, or have waited too long.

        Returns when to look again.
        """
        for generation, meetings in list(self._sets.items()):
            if self._rendezvous.is_whole_since(generation):
                meetings.tick(now_s)
            else:
                meetings.fail_all(self._rendezvous.lost_rank, _WAS_LOST)
                del self._sets[generation]
        is_awaited = any(each.is_awaited for each in self._sets.values())
        return now_s + TICK_S if is_awaited else NEVER

    def _forget_oldest(self) -> None:
        idle = [generation for generation, each in self._sets.items() if not each.is_awaited]
        for generation in idle[:-IDLE_SETS]:
            del self._sets[generation]
