"""What is done about lost ranks: what someone asks for, or what the cluster was started with."""

from jupyter_dist.coordinator.agents.message_sender import NOBODY
from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.cells.scheduler import CellScheduler, Work
from jupyter_dist.coordinator.recovery.healing import Healing, HealingParts
from jupyter_dist.coordinator.recovery.losses import Losses
from jupyter_dist.coordinator.recovery.shrinking import Shrinking
from jupyter_dist.coordinator.state.clock import NEVER, TICK_S
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.rank import format_ranks, name_rank, name_ranks
from jupyter_dist.model.ranks.signals import RankSignal
from jupyter_dist.model.spec.on_loss import OnLoss
from jupyter_dist.protocol.messages import HealRanks, ShrinkCluster
from jupyter_dist.text.plurals import fit

PATIENCE_S = 2.0
"""Who has not answered a roll call after this time is named."""

_ANNOUNCED = {
    OnLoss.ASK: "",
    OnLoss.STOP: "{rank} is lost, and with it the cluster ends (--on-loss stop)",
    OnLoss.HEAL: "{rank} will be replaced when this cell has ended (--on-loss heal)",
    OnLoss.CONTINUE: "the cluster will go on without {rank} when this cell has ended "
    "(--on-loss continue)",
}


class Recovery:
    """Heals and shrinks; what it does on its own it tries once for the same losses."""

    def __init__(
        self, scheduler: CellScheduler, losses: Losses, parts: HealingParts, on_loss: OnLoss
    ) -> None:
        self._scheduler = scheduler
        self._losses = losses
        self._parts = parts
        self._roster, self._sender = parts.cell.roster, parts.cell.sender
        self._on_loss = on_loss
        self._count = 0
        self._roll_calls: list[tuple[bytes, HealRanks | ShrinkCluster, float]] = []
        """What was asked for while no rank was known to be lost, and when."""
        self._tried: frozenset[str] = frozenset()
        """Engines that were lost when it last acted on its own."""
        self.note = ""
        """Why what it did on its own has failed, or empty."""
        self.wants_end = False
        """A rank is lost, and the cluster is to end then."""
        scheduler.recovery = losses.recovery = self
        scheduler.listeners.append(self)
        scheduler.ends_with_a_loss = on_loss is OnLoss.STOP

    # --- what someone asks for ---

    def on_request(self, client: bytes, request: HealRanks | ShrinkCluster, now_s: float) -> None:
        """Queue it; whoever is to be replaced though it lives is killed at once."""
        if isinstance(request, HealRanks) and request.ranks:
            self._kill(request)
        elif not self._lost():
            # The end of a rank may be known a moment later: nothing is said before all have spoken.
            present = self._roster.present()
            self._parts.beats.ask(engine.identity for engine in present if engine.pid)
            self._roll_calls.append((client, request, now_s))
            self._end_roll_calls(now_s)
            return
        self._scheduler.put_first(self._make(client, request), now_s)

    def _end_roll_calls(self, now_s: float) -> None:
        """Go on with what was asked for, once every rank has answered or is lost."""
        under_way, self._roll_calls = self._roll_calls, []
        for client, request, asked_s in under_way:
            silent = self._silent_ranks(asked_s)
            if self._lost() or not silent:
                self._scheduler.put_first(self._make(client, request), now_s)
            elif now_s < asked_s + PATIENCE_S:
                self._roll_calls.append((client, request, asked_s))
            else:
                verb, them = fit(silent, ("does", "it"), ("do", "them"))
                text = (
                    f"{name_ranks(silent)} {verb} not answer for {PATIENCE_S:g} s: stopped, or out "
                    f"of reach. %dist_heal --ranks {format_ranks(silent)} replaces {them}; the "
                    "others are there."
                )
                self._sender.refuse(client, request.request_id, ErrorCode.HEAL_FAILED, text)

    def _silent_ranks(self, since_s: float) -> list[int]:
        """Return the present ranks that have answered no heartbeat asked for since then."""
        return [
            engine.info.rank
            for engine in self._roster.present()
            if engine.pid and self._parts.beats.answered_s(engine.identity) < since_s
        ]

    def _kill(self, request: HealRanks) -> None:
        """Kill what lives of these ranks, unless they are just being replaced."""
        if isinstance(self._scheduler.current, Healing | Shrinking):
            return
        living = [rank for rank in request.ranks or () if self._roster[rank].is_present]
        self._roster.condemn(living)
        self._sender.send_signal(living, RankSignal.SIGKILL, f"replace-{request.request_id}")

    def _make(self, client: bytes, request: HealRanks | ShrinkCluster) -> Work:
        if isinstance(request, HealRanks):
            return Healing(client, request, self._parts)
        return Shrinking(client, request, self._parts)

    # --- what the cluster was started with ---

    def is_due(self) -> bool:
        """Return whether lost ranks will be taken care of, so that new cells may wait for that."""
        if self._roll_calls or self._is_under_way():
            return True
        acts = self._on_loss in (OnLoss.HEAL, OnLoss.CONTINUE)
        return acts and bool(self._lost()) and self._lost() != self._tried

    def tick(self, now_s: float) -> float:
        """Act on its own when a rank is lost, once nothing runs any more.

        Returns when to look again.
        """
        self._end_roll_calls(now_s)
        if not self._is_under_way():  # else someone has asked for it already
            self._act(now_s)
        return now_s + TICK_S if self._roll_calls else NEVER

    def _act(self, now_s: float) -> None:
        if (current := self._scheduler.current) is not None:
            is_end = self._on_loss is OnLoss.STOP and self._roster.lost_ranks()
            if is_end and isinstance(current, CellRun):
                current.interrupt_others(now_s)  # it would keep the cluster for as long as it runs
            return
        if not (lost := self._lost()) or lost == self._tried:
            return
        self._tried = lost
        match self._on_loss:
            case OnLoss.ASK:
                return
            case OnLoss.STOP:
                self.wants_end = True
            case OnLoss.HEAL | OnLoss.CONTINUE:
                self._count += 1
                request_id = f"by-itself-{self._count}"
                is_healing = self._on_loss is OnLoss.HEAL
                request = HealRanks(request_id) if is_healing else ShrinkCluster(request_id)
                self._scheduler.put_first(self._make(NOBODY, request), now_s)

    def _is_under_way(self) -> bool:
        return any(isinstance(work, Healing | Shrinking) for work in self._scheduler.all_work)

    def on_over(self, work: Work, _now_s: float) -> None:
        """Take in that a piece of work has ended."""
        if isinstance(work, CellRun):
            self._parts.setup_cells.remember(work.request, work.statuses)
        elif isinstance(work, Healing | Shrinking):
            what = "healing" if isinstance(work, Healing) else "shrinking"
            if work.client == NOBODY:
                self.note = f"{what} has failed: {work.problem}" if work.problem else ""
                self._tried = self._lost()  # new engines that have failed are no new losses
                if work.problem:
                    self._losses.drop_outlooks()
            elif not work.problem:
                self.note = ""
            if isinstance(work, Healing):
                self._losses.forget(work.replaced)
            elif work.renumbered:
                self._losses.forget(tuple(self._losses.crashes))
                self._scheduler.refuse_all(
                    "the cluster went on without lost ranks meanwhile, and the others have new "
                    "numbers; no rank ran it. Run it again."
                )

    def announce(self, rank: int) -> str:
        """Return what will be done about a loss, as a sentence; empty: that is for the person."""
        sentence = _ANNOUNCED[self._on_loss]
        return sentence.format(rank=name_rank(rank)) if sentence else ""

    def _lost(self) -> frozenset[str]:
        return frozenset(self._roster[rank].name for rank in self._roster.lost_ranks())
