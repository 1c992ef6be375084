"""The cluster goes on without its lost ranks: the others are numbered again, without gaps."""

import signal

from jupyter_dist.coordinator.agents.message_sender import NOBODY
from jupyter_dist.coordinator.recovery.healing import HealingParts
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.protocol.messages import HealProgress, Leave, ShrinkCluster, Shrunk


class Shrinking:
    """One shrinking from its beginning to its end; a piece of Work for the fence."""

    def __init__(self, client: bytes, request: ShrinkCluster, parts: HealingParts) -> None:
        self.client = client
        self.request_id = request.request_id
        self.ranks: tuple[int, ...] = ()
        """Nobody has to be there for it to begin."""
        self.is_over = False
        self.problem = ""
        """Why it has failed, or empty."""
        self._roster, self._rendezvous = parts.cell.roster, parts.cell.rendezvous
        self._sender = parts.cell.sender
        self._setup_cells = parts.setup_cells
        self._timeout_s = parts.timeout_s
        self._deadline_s = 0.0
        self._told_stage = ""
        self.renumbered: dict[int, int] = {}
        """The new number of each rank by its old one, once they have new ones."""

    def start(self, now_s: float) -> None:
        """Leave the lost ranks out, and form a generation of the others."""
        lost = self._roster.lost_ranks()
        if len(lost) in (0, self._roster.world_size):
            what = "every rank is there" if not lost else "no rank is left"
            self._fail(f"{what}: the cluster cannot shrink", ErrorCode.USAGE_ERROR)
            return
        # A lost rank may have a process all the same: stopped, or out of reach for a while.
        self._sender.send_signal(lost, signal.SIGKILL, f"shrink-{self.request_id}")
        self._sender.to_engines(lost, Leave())
        self.renumbered = self._roster.shrink()
        self._setup_cells.renumber(self.renumbered)
        self._rendezvous.regroup()
        self._deadline_s = now_s + self._timeout_s

    def tick(self, now_s: float) -> None:
        """Answer the client once the new generation stands."""
        if self.is_over:
            return
        missing = name_ranks(self._rendezvous.awaited_ranks)
        if tasks := self._rendezvous.describe_tasks():
            self._deadline_s = max(self._deadline_s, now_s + self._timeout_s)
            self._say(tasks)
        if self._rendezvous.is_complete:
            self.is_over = True
            shrunk = Shrunk(
                self.request_id,
                self._rendezvous.generation,
                self._roster.world_size,
                self.renumbered,
                () if self.client == NOBODY else self._rendezvous.take_notes(),
            )
            self._sender.to_client(self.client, shrunk)
        elif self._rendezvous.problem:
            self._fail(self._rendezvous.problem)
        elif now_s >= self._deadline_s:
            self._rendezvous.give_up(f"{missing} not ready within {self._timeout_s:g} s")
            self._fail(self._rendezvous.problem)

    def on_lost(self, rank: int, reason: str) -> None:
        """Take in that another rank is gone meanwhile: the cluster can shrink once more."""
        if not self.is_over:
            self._fail(f"rank {rank} (of the new numbers) was lost meanwhile: {reason}")

    def _say(self, stage: str) -> None:
        if stage != self._told_stage:
            self._told_stage = stage
            self._sender.to_client(self.client, HealProgress(self.request_id, stage))

    def _fail(self, problem: str, code: ErrorCode = ErrorCode.HEAL_FAILED) -> None:
        self.is_over = True
        self.problem = problem
        self._sender.refuse(self.client, self.request_id, code, f"{problem}.")
