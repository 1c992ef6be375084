"""The cluster goes on without its lost ranks: the others are numbered again, without gaps."""

from jupyter_dist.coordinator.recovery.healing import HealingParts, RecoveryWork
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.axes import write_sizes
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.signals import RankSignal
from jupyter_dist.protocol.messages import Leave, ShrinkCluster, Shrunk


class Shrinking(RecoveryWork):
    """One shrinking from its beginning to its end."""

    def __init__(self, client: bytes, request: ShrinkCluster, parts: HealingParts) -> None:
        super().__init__(client, request.request_id, parts)
        self.is_over = False
        self._timeout_s = parts.timeout_s
        self.renumbered: dict[int, int] = {}
        """The new number of each rank by its old one, once they have new ones."""
        self._told: list[str] = []
        """What the client learns at the end."""

    def start(self, now_s: float) -> None:
        """Leave the lost ranks out, and form a generation of the others."""
        lost = self._roster.lost_ranks()
        if len(lost) in (0, self._roster.world_size):
            what = "every rank is there" if not lost else "no rank is left"
            self._fail(f"{what}: the cluster cannot shrink", ErrorCode.USAGE_ERROR)
            return
        if axes := self._roster.axes:
            self._told.append(
                f"the axes {write_sizes(axes.shape)} are dropped: they do not fit the ranks that "
                "are left; %dist_axes names others"
            )
        self.renumbered = {rank: rank for rank in range(self._roster.world_size)}
        self._leave_out(lost)
        self._deadline_s = now_s + self._timeout_s

    def _leave_out(self, lost: list[int]) -> None:
        # A lost rank may have a process all the same: stopped, or out of reach for a while.
        self._sender.send_signal(lost, RankSignal.SIGKILL, f"shrink-{self.request_id}")
        self._sender.to_engines(lost, Leave())
        new = self._roster.shrink()
        self.renumbered = {old: new[rank] for old, rank in self.renumbered.items() if rank in new}
        self._parts.setup_cells.renumber(new)
        self._rendezvous.regroup()
        for text in self._told:
            self._rendezvous.add_note(text)

    def tick(self, now_s: float) -> None:
        """Answer the client once the new generation stands; leave out who is lost meanwhile."""
        if self.is_over:
            return
        if lost := self._roster.lost_ranks():
            if len(lost) == self._roster.world_size:
                self._fail("no rank is left: the cluster cannot shrink")
                return
            self._leave_out(lost)
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
        """Take in that another rank is gone meanwhile: it is left out, too."""
        if self.is_over:
            return
        before = next(old for old, new in self.renumbered.items() if new == rank)
        self._told.append(f"rank {before} was lost meanwhile, and is left out, too: {reason}")

    def _fail(self, problem: str, code: ErrorCode = ErrorCode.HEAL_FAILED) -> None:
        self.is_over = True
        self.problem = problem
        self._sender.refuse(self.client, self.request_id, code, f"{problem}.")
