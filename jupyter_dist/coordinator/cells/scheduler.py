"""The fence: one piece of work at a time, and only when its ranks are idle in one generation.

Without it a rank that raised early could start the next cell while another still sits in a
collective of this one, and the two would exchange numbers that do not belong together.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.cells.transfers import Transfer
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode, WireError
from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.protocol.messages import AskInput, CellWaiting, FromInput, InputAnswered
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.sizes import without_measures

PATIENCE_S = 0.3
"""Waiting is not worth a word before this."""
REGROUP_TIMEOUT_S = 60.0
"""Ranks that were all idle have so much time to form a new generation."""
FRAMEWORKS_TIMEOUT_S = 60.0
"""And so much more where frameworks are formed again, which may have to be imported first."""


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


class WorkListener(Protocol):
    """A part of the coordinator that acts when work has ended, before other work begins."""

    def on_over(self, work: Work, now_s: float) -> None:
        """Take in that work has ended; it may put other work first."""


class RecoveryPolicy(Protocol):
    """What the cluster does about lost ranks."""

    def is_due(self) -> bool:
        """Return whether lost ranks are being taken care of, so that work may wait for them."""

    def announce(self, rank: int) -> str:
        """Return what will be done about a loss, as a sentence; empty: that is for the person."""


class CellScheduler:
    """Admits work in the order it came: a queue with a check for admission, not a state machine."""

    def __init__(self, roster: Roster, rendezvous: Rendezvous, sender: Sender) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._sender = sender
        self._queue: deque[Work] = deque()
        self._waiting_since_s = 0.0
        self._regrouping_until_s = math.inf
        self._told: dict[tuple[bytes, str], str] = {}
        self.current: Work | None = None
        self.recovery: RecoveryPolicy | None = None
        self.ends_with_a_loss = False
        """The cluster was started to end when a rank is lost."""
        self.listeners: list[WorkListener] = []
        self.signals_under_way: set[str] = set()
        """Interrupts that agents have not confirmed; one that comes late must not hit new work."""
        self._left_busy: set[int] = set()
        """Ranks that were still busy when their work ended for its client."""

    @property
    def has_work(self) -> bool:
        """Something runs, or waits."""
        return self.current is not None or bool(self._queue)

    @property
    def all_work(self) -> tuple[Work, ...]:
        """What runs, and what waits."""
        return (*((self.current,) if self.current is not None else ()), *self._queue)

    @property
    def cell(self) -> CellRun | None:
        """The cell that runs, be it one that new ranks run while the cluster is healed."""
        current = self.current
        return current if isinstance(current, CellRun) else getattr(current, "cell", None)

    def tell_cell(self, text: str) -> None:
        """Show a sentence to who watches the cell that runs, if one runs."""
        if (cell := self.cell) is not None:
            cell.tell(text)

    def find_cell(self, cell_id: str) -> CellRun | None:
        """Return the cell that runs, if it is this one."""
        cell = self.current  # as in `cell`, with one call less: it is asked for each message
        if not isinstance(cell, CellRun):
            cell = getattr(cell, "cell", None)
        return cell if cell is not None and cell.cell_id == cell_id else None

    def on_unreadable(self, rank: int, problem: WireError) -> None:
        """Tell what runs that a rank has sent something that could not be read."""
        if work := self.cell or self.transfer:
            work.on_unreadable(rank, problem)

    def on_question(self, question: FromInput) -> None:
        """Hand what a rank asks a person to its cell; it learns if that has ended without it."""
        if (cell := self.find_cell(question.cell_id)) is not None:
            cell.on_question(question)
        elif isinstance(question, AskInput):
            over = InputAnswered(question.number, problem="its cell has ended")
            self._sender.to_engine(question.rank, over)

    @property
    def transfer(self) -> Transfer | None:
        """The push or pull that runs."""
        return self.current if isinstance(self.current, Transfer) else None

    @property
    def unresponsive_ranks(self) -> tuple[int, ...]:
        """Ranks that are still busy with a cell that has ended without them."""
        busy = set(self._roster.ranks_in(EngineState.BUSY))
        return tuple(sorted(self._left_busy & busy.difference(self._roster.ranks_in_tasks)))

    def expects_recovery(self) -> bool:
        """Return whether lost ranks are being taken care of, so that work may wait for them."""
        return self.recovery is not None and self.recovery.is_due()

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
            self._sender.refuse(work.client, work.request_id, ErrorCode.CELL_REFUSED, reason)

    def withdraw(self, client: bytes, request_id: str) -> bool:
        """Drop work that has not started; False when it has, or is not there."""
        for work in self._queue:
            if (work.client, work.request_id) == (client, request_id):
                self._queue.remove(work)
                reason = "interrupted while it waited; no rank ran it."
                self._sender.refuse(client, request_id, ErrorCode.CELL_REFUSED, reason)
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
                for listener in self.listeners:
                    listener.on_over(ended, now_s)
        while self.current is None:
            self._repair(now_s)
            if not self._queue:
                break
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
        if self._rendezvous.is_broken and self._is_idle and not self._rendezvous.problem:
            # Also within tasks: a moment without any may never come, but they come one by one.
            self._rendezvous.regroup()
            self._regrouping_until_s = now_s + REGROUP_TIMEOUT_S
        elif self._rendezvous.ranks_kept_by_tasks:
            self._regrouping_until_s = max(self._regrouping_until_s, now_s + REGROUP_TIMEOUT_S)
        elif now_s > self._regrouping_until_s + self._grace_s and self._rendezvous.generation > 1:
            missing = self._rendezvous.awaited_ranks
            if missing and self._roster.ranks_in(EngineState.STARTING):
                verb, limit_s = fit(missing, "has", "have"), REGROUP_TIMEOUT_S + self._grace_s
                self._rendezvous.give_up(
                    f"{name_ranks(missing)} {verb} not joined it within {limit_s:g} s "
                    f"(%dist_heal --ranks {format_ranks(missing)} replaces what is stuck)"
                )

    @property
    def _is_idle(self) -> bool:
        return len(self._roster.ranks_in(EngineState.IDLE)) == self._roster.world_size

    @property
    def _grace_s(self) -> float:
        return FRAMEWORKS_TIMEOUT_S if self._rendezvous.is_forming_frameworks else 0.0

    def _closed_because(self) -> str:
        """Return the reason why nothing can be admitted, or an empty string."""
        if self.transfer is not None and self.transfer.note:
            return f"waits: {self.transfer.label}: {self.transfer.note}"
        busy = self._roster.ranks_in(EngineState.BUSY)
        if in_tasks := sorted(set(busy).intersection(self._roster.ranks_in_tasks)):
            verb, them = fit(in_tasks, ("runs a task", "it"), ("run tasks", "them"))
            first = f"{name_ranks(in_tasks)} {verb} of ipyparallel before the last cell"
            return f"waits: {first}; %dist_interrupt ends {them}"
        if busy:
            return f"waits: {self._describe_busy(busy)}"
        starting = self._roster.ranks_in(EngineState.STARTING)
        if starting and (tasks := self._rendezvous.describe_tasks()):
            return f"waits: {tasks}"
        if starting:
            return f"waits: {name_ranks(starting)} joining generation {self._rendezvous.generation}"
        if self.signals_under_way:
            return "waits: an interrupt is under way"
        return ""

    def judge(self) -> HangVerdict:
        """Return what is wrong with the cell, or with ranks that are busy although it is over."""
        if self.cell is not None:
            return self.cell.verdict
        if self.transfer is not None and self.transfer.note:
            return HangVerdict("", f"{self.transfer.label}: {self.transfer.note}")
        text = self.describe_unresponsive()
        return HangVerdict("hang", text) if text else HangVerdict()

    def describe_unresponsive(self) -> str:
        """Return who is still busy with a cell that has ended without them; empty: none."""
        ranks = self.unresponsive_ranks
        return self._describe_busy(ranks) if ranks and self.current is None else ""

    def _describe_busy(self, ranks: Sequence[int]) -> str:
        labels = sorted({self._roster[rank].cell_label for rank in ranks} - {""})
        doing = f" with {', '.join(labels)}" if labels else ""
        verb = fit(ranks, "is", "are")
        return f"{name_ranks(ranks)} {verb} still busy{doing} ({self._way_out()})"

    def _way_out(self) -> str:
        ranks = self.unresponsive_ranks
        if not ranks:
            return "%dist_interrupt stops it"
        them = fit(ranks, "it", "them")
        return (
            f"not responding to the interrupt; %dist_heal --ranks {format_ranks(ranks)} replaces "
            f"{them}, %dist_interrupt asks again"
        )

    def _tell_waiting(self, reason: str, now_s: float) -> None:
        if now_s - self._waiting_since_s < PATIENCE_S:
            return
        for work in self._queue:
            asked = (work.client, work.request_id)
            if self._told.get(asked) != (told := without_measures(reason)):
                self._told[asked] = told
                self._sender.to_client(work.client, CellWaiting(work.request_id, reason))

    def _refuse_broken(self, work: Work) -> bool:
        """Refuse what comes after a generation that could not be formed; then it is tried again."""
        problem = self._rendezvous.problem
        if not problem or not work.ranks:
            return False
        self._rendezvous.problem = ""
        text = f"the ranks could not form a communicator: {problem}. Run the cell again, or heal."
        self._sender.refuse(work.client, work.request_id, ErrorCode.CELL_REFUSED, text)
        return True

    def _refuse_lost(self, work: Work) -> bool:
        lost = set(self._roster.lost_ranks())
        gone = [rank for rank in work.ranks if rank in lost] if lost else []
        if not gone or self.expects_recovery():
            return False
        if self.ends_with_a_loss:
            text = "a rank is lost, and the cluster ends with it (--on-loss stop). Start a new one."
            self._sender.refuse(work.client, work.request_id, ErrorCode.CELL_REFUSED, text)
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
            f"{name_ranks(gone)} of this cluster {fit(gone, 'is', 'are')} lost "
            f"({reasons}). %dist_heal replaces {fit(gone, 'it', 'them')}{way}."
        )
        self._sender.refuse(work.client, work.request_id, ErrorCode.CELL_REFUSED, text)
        return True
