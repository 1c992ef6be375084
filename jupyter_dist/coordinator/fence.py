"""The fence: one piece of work at a time, and only when its ranks are idle in one generation.

Without it a rank that raised early could start the next cell while another still sits in a
collective of this one, and the two would exchange numbers that do not belong together.
"""

from collections import deque
from typing import Protocol

from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.protocol.messages import CellWaiting, Refused

PATIENCE_S = 0.3
"""Waiting is not worth a word before this."""


class Work(Protocol):
    """Something that keeps ranks busy: a cell, a push, a pull."""

    client: bytes
    request_id: str
    ranks: tuple[int, ...]

    @property
    def is_over(self) -> bool:
        """Nothing more is expected of it."""

    def start(self, now_s: float) -> None:
        """Send it to its ranks, which are idle."""

    def on_lost(self, rank: int, reason: str) -> None:
        """Take in that a rank is gone."""

    def tick(self, now_s: float) -> None:
        """Look at the clock."""


class Fence:
    """Admits work in the order it came."""

    def __init__(self, roster: Roster, rendezvous: Rendezvous, outbox: Outbox) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._outbox = outbox
        self._queue: deque[Work] = deque()
        self._waiting_since_s = 0.0
        self._told: dict[tuple[bytes, str], str] = {}
        self.current: Work | None = None
        self.signals_under_way: set[str] = set()
        """Interrupts that agents have not confirmed; one that comes late must not hit new work."""

    def submit(self, work: Work, now_s: float) -> None:
        """Queue work, or refuse it when one of its ranks is gone."""
        if not self._refuse_lost(work):
            if not self._queue:
                self._waiting_since_s = now_s
            self._queue.append(work)

    def withdraw(self, client: bytes, request_id: str) -> bool:
        """Drop work that has not started; False when it has, or is not there."""
        for work in self._queue:
            if (work.client, work.request_id) == (client, request_id):
                self._queue.remove(work)
                reason = "interrupted while it waited; no rank ran it."
                self._outbox.to_client(client, Refused(request_id, "CellRefused", reason))
                return True
        return False

    def advance(self, now_s: float) -> None:
        """Finish, repair, admit: whatever is possible now."""
        if self.current is not None:
            self.current.tick(now_s)
            if self.current.is_over:
                self.current = None
                self._waiting_since_s = now_s
        if self.current is None:
            self._repair()
        while self.current is None and self._queue:
            if self._refuse_lost(self._queue[0]):
                self._queue.popleft()
                continue
            reason = self._closed_because()
            if reason:
                self._tell_waiting(reason, now_s)
                return
            self.current = self._queue.popleft()
            self._told.clear()
            self.current.start(now_s)
        if self._queue:
            self._tell_waiting(self._closed_because() or "waits for other work to end", now_s)

    def _repair(self) -> None:
        """Form a new generation as soon as everyone is idle after a failure."""
        everyone_idle = len(self._roster.ranks_in(EngineState.IDLE)) == self._roster.world_size
        if self._rendezvous.is_broken and everyone_idle:
            self._rendezvous.regroup()

    def _closed_because(self) -> str:
        """Give the reason why nothing can be admitted, or an empty string."""
        busy = self._roster.ranks_in(EngineState.BUSY)
        if busy:
            labels = sorted({self._roster[rank].cell_label for rank in busy} - {""})
            doing = f" with {', '.join(labels)}" if labels else ""
            verb = "is" if len(busy) == 1 else "are"
            return f"waits: {name_ranks(busy)} {verb} still busy{doing} (%dist_interrupt stops it)"
        starting = self._roster.ranks_in(EngineState.STARTING)
        if starting:
            return f"waits: {name_ranks(starting)} joining generation {self._rendezvous.generation}"
        if self.signals_under_way:
            return "waits: an interrupt is under way"
        return ""

    def _tell_waiting(self, reason: str, now_s: float) -> None:
        if now_s - self._waiting_since_s < PATIENCE_S:
            return
        for work in self._queue:
            asked = (work.client, work.request_id)
            if self._told.get(asked) != reason:
                self._told[asked] = reason
                self._outbox.to_client(work.client, CellWaiting(work.request_id, reason))

    def _refuse_lost(self, work: Work) -> bool:
        gone = [rank for rank in work.ranks if not self._roster[rank].is_present]
        if not gone:
            return False
        reasons = "; ".join(f"rank {rank}: {self._roster[rank].reason}" for rank in gone)
        present = self._roster.present_ranks()
        way = (
            f"Work on with the others (--ranks {name_ranks(present).split()[1]}), or "
            if present
            else ""
        )
        text = (
            f"{name_ranks(gone)} of this cluster {'is' if len(gone) == 1 else 'are'} lost "
            f"({reasons}). {way}{'s' if way else 'S'}tart a new cluster "
            "(%dist_stop, then %dist_start)."
        )
        self._outbox.to_client(work.client, Refused(work.request_id, "CellRefused", text))
        return True
