"""The cluster goes on without its lost ranks: the others are numbered again, without gaps."""

import signal

from jupyter_dist.coordinator.recovery.healing import HealingParts, RecoveryWork
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.protocol.messages import Leave, ShrinkCluster, Shrunk


class Shrinking(RecoveryWork):
    """One shrinking from its beginning to its end."""

    def __init__(self, client: bytes, request: ShrinkCluster, parts: HealingParts) -> None:
        super().__init__(client, request.request_id, parts)
        self.is_over = False
        self._timeout_s = parts.timeout_s
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
        self._parts.setup_cells.renumber(self.renumbered)
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
                self._take_notes(),
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

    def _fail(self, problem: str, code: ErrorCode = ErrorCode.HEAL_FAILED) -> None:
        self.is_over = True
        self.problem = problem
        self._sender.refuse(self.client, self.request_id, code, f"{problem}.")
