"""Meetings outside of cells: threads of ranks go on with what a cell has begun.

They do not end with a cell, nor with a generation, which every error of a cell brings about: they
last as long as all ranks that began them live.
"""

from jupyter_dist.coordinator.meetings import Meetings
from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import Attend, LeaveMeeting, MeetingFailed
from jupyter_dist.protocol.standing import generation_of

IDLE_SETS = 8
"""Sets of meetings that are kept for stragglers, though nobody waits in them."""


class StandingMeetings:
    """The meetings of threads, by the generation in which they began."""

    def __init__(self, roster: Roster, rendezvous: Rendezvous, outbox: Outbox) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._outbox = outbox
        self._sets: dict[int, Meetings] = {}

    def on_message(self, message: Attend | LeaveMeeting, frames: list[Frame], now_s: float) -> None:
        """Let a rank take part, or leave; who began before a loss is told of it at once."""
        generation = generation_of(message.cell_id)
        if generation is None:
            return
        if not self._rendezvous.is_whole_since(generation):
            if isinstance(message, Attend):
                self._outbox.to_engine(message.rank, self._failure(message))
            return
        meetings = self._sets.get(generation)
        if meetings is None:
            ranks = range(self._roster.world_size)
            meetings = self._sets[generation] = Meetings(message.cell_id, ranks, self._outbox)
            self._forget_oldest()
        if isinstance(message, Attend):
            meetings.on_attend(message, frames, now_s)
        else:
            meetings.on_leave(message)

    def tick(self, now_s: float) -> None:
        """Fail the meetings that cannot be held any more, or have waited too long."""
        for generation, meetings in list(self._sets.items()):
            if self._rendezvous.is_whole_since(generation):
                meetings.tick(now_s)
            else:
                meetings.fail_all(*self._why())
                del self._sets[generation]

    def _why(self) -> tuple[int, str]:
        """Give the rank that was lost last, and the words that follow its name."""
        return self._rendezvous.lost_rank, "was lost"

    def _failure(self, attend: Attend) -> MeetingFailed:
        rank, text = self._why()
        return MeetingFailed(attend.cell_id, attend.topic, "left", (rank,), text)

    def _forget_oldest(self) -> None:
        idle = [generation for generation, each in self._sets.items() if not each.is_awaited]
        for generation in idle[:-IDLE_SETS]:
            del self._sets[generation]
