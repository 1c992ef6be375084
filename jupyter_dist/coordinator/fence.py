"""The fence: one piece of work at a time, and only when its ranks are idle in one generation.

Without it a rank that raised early could start the next cell while another still sits in a
collective of this one, and the two would exchange numbers that do not belong together.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Protocol

from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.coordinator.transfers import Transfer
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.model.rank import format_ranks, name_ranks
from jupyter_dist.model.text import without_seconds
from jupyter_dist.model.verdict import Verdict
from jupyter_dist.protocol.messages import CellWaiting, Refused

PATIENCE_S = 0.3
"""Waiting is not worth a word before this."""
REGROUP_TIMEOUT_S = 60.0
"""Ranks that were all idle have so much time to form a new generation."""
FRAMEWORKS_TIMEOUT_S = 60.0
"""And so much more where frameworks are formed anew, which may have to be imported first."""


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
        self._regrouping_until_s = math.inf
        self._told: dict[tuple[bytes, str], str] = {}
        self.current: Work | None = None
        self.expects_recovery: Callable[[], bool] = lambda: False
        """Tells whether lost ranks are being taken care of, so that work may wait for them."""
        self.ends_with_a_loss = False
        """The cluster was started to end when a rank is lost."""
        self.on_over: Callable[[Work], None] = lambda _work: None
        """Told of each piece of work that has ended."""
        self.before_next: Callable[[float], None] = lambda _now_s: None
        """Called then, with the time, before other work begins; it may put some first."""
        self.signals_under_way: set[str] = set()
        """Interrupts that agents have not confirmed; one that comes late must not hit new work."""
        self._left_busy: set[int] = set()
        """Ranks that were still busy when their work ended for its client."""

    @property
    def all_work(self) -> tuple[Work, ...]:
        """What runs, and what waits."""
        return (*((self.current,) if self.current is not None else ()), *self._queue)

    @property
    def cell(self) -> CellRun | None:
        """The cell that runs, be it one that new ranks run while the cluster is healed."""
        current = self.current
        return current if isinstance(current, CellRun) else getattr(current, "cell", None)

    @property
    def transfer(self) -> Transfer | None:
        """The push or pull that runs."""
        return self.current if isinstance(self.current, Transfer) else None

    @property
    def deaf_ranks(self) -> tuple[int, ...]:
        """Ranks that are still busy with a cell that has ended without them."""
        busy = set(self._roster.ranks_in(EngineState.BUSY))
        return tuple(sorted(self._left_busy & busy.difference(self._roster.ranks_in_tasks)))

    def submit(self, work: Work, now_s: float) -> None:
        """Queue work, or refuse it when one of its ranks is gone."""
        if not self._refuse_lost(work):
            if not self._queue:
                self._waiting_since_s = now_s
            self._queue.append(work)

    def put_first(self, work: Work, now_s: float) -> None:
        """Queue work before all other."""
        if not self._queue:
            self._waiting_since_s = now_s
        self._queue.appendleft(work)

    def refuse_all(self, reason: str) -> None:
        """Refuse all that waits."""
        while self._queue:
            work = self._queue.popleft()
            self._outbox.to_client(work.client, Refused(work.request_id, "CellRefused", reason))

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
                busy = self._roster.ranks_in(EngineState.BUSY)
                self._left_busy = set(self.current.ranks).intersection(busy)
                ended, self.current = self.current, None
                self._waiting_since_s = now_s
                self.on_over(ended)
                self.before_next(now_s)
        if self.current is None:
            self._repair(now_s)
        while self.current is None and self._queue:
            self._repair(now_s)
            if self._refuse_lost(self._queue[0]) or self._refuse_broken(self._queue[0]):
                self._queue.popleft()
                continue
            reason = self._closed_because()
            if not reason and self._queue[0].ranks and self.expects_recovery():
                reason = "waits: lost ranks are taken care of first"
            if reason:
                self._tell_waiting(reason, now_s)
                return
            self.current = self._queue.popleft()
            self._told.clear()
            self._left_busy.clear()
            self.current.start(now_s)
        if self._queue:
            self._tell_waiting(self._closed_because() or "waits for other work to end", now_s)

    def _repair(self, now_s: float) -> None:
        """Form a new generation as soon as everyone is idle after a failure."""
        everyone_idle = len(self._roster.ranks_in(EngineState.IDLE)) == self._roster.world_size
        if self._rendezvous.is_broken and everyone_idle and not self._rendezvous.problem:
            # Also within tasks: a moment without any may never come, but they come one by one.
            self._rendezvous.regroup()
            self._regrouping_until_s = now_s + REGROUP_TIMEOUT_S
        elif self._rendezvous.ranks_kept_by_tasks:
            self._regrouping_until_s = max(self._regrouping_until_s, now_s + REGROUP_TIMEOUT_S)
        elif self._is_too_late(now_s) and self._rendezvous.generation > 1:
            missing = self._rendezvous.awaited_ranks
            if missing and self._roster.ranks_in(EngineState.STARTING):
                verb = "has" if len(missing) == 1 else "have"
                self._rendezvous.give_up(
                    f"{name_ranks(missing)} {verb} not joined it within {REGROUP_TIMEOUT_S:g} s "
                    f"(%dist_heal --ranks {format_ranks(missing)} replaces what is stuck)"
                )

    def _is_too_late(self, now_s: float) -> bool:
        more_s = FRAMEWORKS_TIMEOUT_S if self._rendezvous.is_forming_frameworks else 0.0
        return now_s > self._regrouping_until_s + more_s

    def _closed_because(self) -> str:
        """Give the reason why nothing can be admitted, or an empty string."""
        if self.transfer is not None and self.transfer.note:
            return f"waits: {self.transfer.label}: {self.transfer.note}"
        busy = self._roster.ranks_in(EngineState.BUSY)
        if in_tasks := sorted(set(busy).intersection(self._roster.ranks_in_tasks)):
            verb, them = ("runs a task", "it") if len(in_tasks) == 1 else ("run tasks", "them")
            first = f"{name_ranks(in_tasks)} {verb} of ipyparallel before the last cell"
            return f"waits: {first}; %dist_interrupt ends {them}"
        if busy:
            labels = sorted({self._roster[rank].cell_label for rank in busy} - {""})
            doing = f" with {', '.join(labels)}" if labels else ""
            verb = "is" if len(busy) == 1 else "are"
            return f"waits: {name_ranks(busy)} {verb} still busy{doing} ({self._way_out()})"
        starting = self._roster.ranks_in(EngineState.STARTING)
        if starting and (tasks := self._rendezvous.describe_tasks()):
            return f"waits: {tasks}"
        if starting:
            return f"waits: {name_ranks(starting)} joining generation {self._rendezvous.generation}"
        if self.signals_under_way:
            return "waits: an interrupt is under way"
        return ""

    def judge(self) -> Verdict:
        """Say what is the matter with the cell, or with ranks that are busy although it is over."""
        if self.cell is not None:
            return self.cell.verdict
        if self.transfer is not None and self.transfer.note:
            return Verdict("", f"{self.transfer.label}: {self.transfer.note}")
        deaf = self.describe_deaf()
        return Verdict("hang", deaf) if deaf else Verdict()

    def describe_deaf(self) -> str:
        """Say who is still busy with a cell that has ended without them; empty: nobody."""
        deaf = self.deaf_ranks
        if not deaf or self.current is not None:
            return ""
        labels = sorted({self._roster[rank].cell_label for rank in deaf} - {""})
        verb = "is" if len(deaf) == 1 else "are"
        return f"{name_ranks(deaf)} {verb} still busy with {', '.join(labels)} ({self._way_out()})"

    def _way_out(self) -> str:
        deaf = self.deaf_ranks
        if not deaf:
            return "%dist_interrupt stops it"
        them = "it" if len(deaf) == 1 else "them"
        return (
            f"deaf to the interrupt; %dist_heal --ranks {format_ranks(deaf)} replaces {them}, "
            "%dist_interrupt asks again"
        )

    def _tell_waiting(self, reason: str, now_s: float) -> None:
        if now_s - self._waiting_since_s < PATIENCE_S:
            return
        for work in self._queue:
            asked = (work.client, work.request_id)
            if self._told.get(asked) != (told := without_seconds(reason)):
                self._told[asked] = told
                self._outbox.to_client(work.client, CellWaiting(work.request_id, reason))

    def _refuse_broken(self, work: Work) -> bool:
        """Refuse what comes after a generation that could not be formed; then it is tried again."""
        problem = self._rendezvous.problem
        if not problem or not work.ranks:
            return False
        self._rendezvous.problem = ""
        text = f"the ranks could not form a communicator: {problem}. Run the cell again, or heal."
        self._outbox.to_client(work.client, Refused(work.request_id, "CellRefused", text))
        return True

    def _refuse_lost(self, work: Work) -> bool:
        if self.expects_recovery():
            return False
        known = [rank for rank in work.ranks if rank < self._roster.world_size]
        gone = [rank for rank in known if not self._roster[rank].is_present]
        if not gone:
            return False
        if self.ends_with_a_loss:
            text = "a rank is lost, and the cluster ends with it (--on-loss stop). Start a new one."
            self._outbox.to_client(work.client, Refused(work.request_id, "CellRefused", text))
            return True
        reasons = "; ".join(f"rank {rank}: {self._roster[rank].reason}" for rank in gone)
        present = self._roster.present_ranks()
        way = (
            f", %dist_shrink goes on without, and --ranks {format_ranks(present)} runs a cell on "
            "the others"
            if present
            else ""
        )
        text = (
            f"{name_ranks(gone)} of this cluster {'is' if len(gone) == 1 else 'are'} lost "
            f"({reasons}). %dist_heal replaces {'it' if len(gone) == 1 else 'them'}{way}."
        )
        self._outbox.to_client(work.client, Refused(work.request_id, "CellRefused", text))
        return True
