"""Lost ranks get new engines, and the others keep what they have: one step after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.message_sender import NOBODY
from jupyter_dist.coordinator.cells.cell_run import CellParts, CellRun
from jupyter_dist.coordinator.cells.output_log import OutputLog
from jupyter_dist.coordinator.cells.scheduler import FRAMEWORKS_TIMEOUT_S
from jupyter_dist.coordinator.cells.setup_cells import SetupCells
from jupyter_dist.coordinator.observation.rank_queries import Answers
from jupyter_dist.coordinator.recovery.healing_stage import (
    HealingEvent,
    HealingStage,
    next_stage,
)
from jupyter_dist.coordinator.recovery.host_events import HostEvents
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.free_slots import find_seat
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.rank import RankInfo, name_rank, name_ranks
from jupyter_dist.model.ranks.signals import RankSignal
from jupyter_dist.model.ranks.variable_facts import RankNames
from jupyter_dist.protocol.messages import (
    HealProgress,
    HealRanks,
    Leave,
    ListNames,
    RanksHealed,
    SubmitCell,
)
from jupyter_dist.text.plurals import fit

END_PATIENCE_S = 15.0
"""A process that was killed and has not ended after this time waits for a disk or a driver."""
HOST_PATIENCE_S = 10.0
"""A lost host is given up when no new agent has come from it after this time;"""
HOST_MOST_EXCUSED_S = 20.0
"""and after so much more, at most, for which that agent was there and had no core."""
NAMES_PATIENCE_S = 2.0
NAMING_AFTER_S = 2.0
"""Ranks that have not joined after this time are named."""


@dataclass(frozen=True)
class HealingParts:
    """What healing needs of the coordinator."""

    cell: CellParts
    setup_cells: SetupCells
    hosts: HostEvents
    arrivals: Arrivals
    may_share_devices: bool
    timeout_s: float
    beats: HeartbeatMonitor


class RecoveryWork:
    """What healing and shrinking have in common as pieces of Work for the fence."""

    def __init__(self, client: bytes, request_id: str, parts: HealingParts) -> None:
        self.client = client
        self.request_id = request_id
        self.ranks: tuple[int, ...] = ()
        """Nobody has to be there for it to begin."""
        self.problem = ""
        """Why it has failed, or empty."""
        self._parts = parts
        self._roster, self._rendezvous = parts.cell.roster, parts.cell.rendezvous
        self._sender = parts.cell.sender
        self._deadline_s = 0.0
        self._told_stage = ""

    def _say(self, stage: str) -> None:
        """Tell the client how far it is, where that is news."""
        if stage != self._told_stage:
            self._told_stage = stage
            self._sender.to_client(self.client, HealProgress(self.request_id, stage))

    def _take_notes(self) -> tuple[str, ...]:
        """Give what the user should know of the new generation; where nobody asked, it is kept."""
        return () if self.client == NOBODY else self._rendezvous.take_notes()


class Healing(RecoveryWork):
    """One healing from its beginning to its end."""

    def __init__(self, client: bytes, request: HealRanks, parts: HealingParts) -> None:
        super().__init__(client, request.request_id, parts)
        self.cell: CellRun | None = None
        """The setup cell that new ranks run at the moment."""
        self.stage = HealingStage.ENDING
        self._request = request
        self._hosts, self._arrivals = parts.hosts, parts.arrivals
        asked = (self._roster[rank] for rank in request.ranks or ())
        self._asked = {each.name for each in asked if not each.is_new}
        """Engines that someone wants to have replaced; one that is being born needs no other."""
        self._targets: tuple[int, ...] = ()
        self._seats: dict[int, RankInfo] = {}
        self._restarted: set[str] = set()
        """Lost hosts that were asked to come back."""
        self._steps: dict[HealingStage, Callable[[float], None]] = {
            HealingStage.ENDING: self._await_ends,
            HealingStage.RETURNING: self._await_hosts,
            HealingStage.FORMING: self._await_generation,
            HealingStage.SETTING_UP: self._run_setup,
            HealingStage.COMPARING: self._await_names,
        }
        self._setup: list[CellRun] = []
        self._replayed: list[str] = []
        self._problems: list[str] = []
        self._names: list[Answers] = []
        """What ranks have, once they have been asked."""

    @property
    def is_over(self) -> bool:
        """It has ended, one way or the other."""
        return self.stage in (HealingStage.HEALED, HealingStage.FAILED)

    @property
    def replaced(self) -> tuple[int, ...]:
        """Ranks that have a new engine, once all is well."""
        return tuple(self._seats) if self.stage is HealingStage.HEALED else ()

    # --- as work of the fence ---

    def start(self, now_s: float) -> None:
        """Begin: whoever is to be replaced has to be gone first."""
        # All that are lost, whoever was asked for: no generation has gaps.
        asked = [
            rank for rank in self._request.ranks or () if self._roster[rank].name in self._asked
        ]
        self._targets = tuple(sorted({*self._roster.lost_ranks(), *asked}))
        if not self._targets:
            self._fail("every rank is there: nothing is to be healed", ErrorCode.USAGE_ERROR)
            return
        self._kill_targets()
        self._deadline_s = now_s + END_PATIENCE_S
        self.tick(now_s)

    def tick(self, now_s: float) -> None:
        """Go on, as far as possible now."""
        while not self.is_over:
            stage = self.stage
            self._steps[stage](now_s)
            if self.stage is stage:
                return

    def on_lost(self, rank: int, reason: str) -> None:
        """Take in that another rank is gone meanwhile, or a new one has not survived its birth."""
        if self.cell is not None:
            self.cell.on_lost(rank, reason)
        host = self._roster.hosts[self._roster[rank].info.host]
        is_newcomer = rank in self._seats and not host.is_lost
        event = HealingEvent.NEWCOMER_DIED if is_newcomer else HealingEvent.RANK_LOST
        follows = next_stage(self.stage, event)
        if follows is HealingStage.FAILED is not self.stage:
            self._fail(f"{name_rank(rank)} was lost meanwhile: {reason}")
        elif follows is not self.stage:
            self._begin_again(event)
        elif not self.is_over and rank not in self._targets:
            self._targets = tuple(sorted((*self._targets, rank)))
            self._sender.send_signal([rank], RankSignal.SIGKILL, f"heal-{self.request_id}")

    # --- the steps ---

    def _await_ends(self, now_s: float) -> None:
        alive = [rank for rank in self._targets if self._roster[rank].is_present]
        if alive and now_s < self._deadline_s:
            self._say(f"waiting for {name_ranks(alive)} to end")
            return
        if alive:
            pids = ", ".join(str(self._roster[rank].pid) for rank in alive)
            self._fail(
                f"{name_ranks(alive)} (pid {pids}) does not end though killed: its host is out of "
                "reach, or the kernel holds the process, waiting for a disk or a driver"
            )
            return
        self._enter(HealingEvent.ENDED, now_s + HOST_PATIENCE_S)

    def _await_hosts(self, now_s: float) -> None:
        """Wait for new agents of lost hosts, as long as some may come."""
        for host in self._lost_hosts():
            if host not in self._restarted:
                self._restarted.add(host)
                self._deadline_s = now_s + HOST_PATIENCE_S
                self._arrivals.restart(self._roster.hosts[host].spec)
        coming = [host for host in self._lost_hosts() if not self._arrivals.why_not_back(host)]
        if coming and now_s < self._deadline_s + self._excused_s(coming):
            self._say(f"waiting for {', '.join(coming)} to come back")
            return
        # Whose host is there keeps its place; what is free then is for the others.
        homeless = set(self._lost_hosts())
        for rank in sorted(
            self._targets, key=lambda rank: self._roster[rank].info.host in homeless
        ):
            seat = find_seat(self._roster, rank, may_share_devices=self._parts.may_share_devices)
            if seat is None:
                self._fail(self._explain_no_seat(rank))
                return
            self._seats[rank] = seat
            self._sender.to_engine(rank, Leave())  # one that is only out of reach must not stay
            self._roster.replace(rank, seat)
        self._roster.count_local_ranks()
        self._rendezvous.regroup(self._targets)
        self._hosts.take_problem()  # of an agent that is gone by now
        self._hosts.start_engines(self._targets)
        self._enter(HealingEvent.SEATED, now_s + self._parts.timeout_s)

    def _await_generation(self, now_s: float) -> None:
        missing = name_ranks(self._rendezvous.awaited_ranks)
        tasks = self._rendezvous.describe_tasks()
        if tasks:
            self._deadline_s = max(self._deadline_s, now_s + self._parts.timeout_s)
        if problem := self._hosts.take_problem() or self._rendezvous.problem:
            self._fail(problem)
        elif self._rendezvous.is_complete:
            self._setup = [
                self._make_cell(number, request)
                for number, request in enumerate(self._parts.setup_cells.for_ranks(self._targets))
            ]
            self._enter(HealingEvent.FORMED)
        elif now_s >= self._deadline_s + self._more_s:
            self._fail(f"{missing} not ready within {self._parts.timeout_s + self._more_s:g} s")
        else:
            generation = f"generation {self._rendezvous.generation}"
            is_slow = now_s > self._deadline_s - self._parts.timeout_s + NAMING_AFTER_S
            waiting = f"waiting for {missing} to join {generation}"
            self._say(tasks or (waiting if is_slow else f"forming {generation}"))

    @property
    def _more_s(self) -> float:
        return FRAMEWORKS_TIMEOUT_S if self._rendezvous.is_forming_frameworks else 0.0

    def _run_setup(self, now_s: float) -> None:
        """Let new ranks run what was marked as setup, one cell after the other."""
        if self.cell is not None:
            self.cell.tick(now_s)
            if not self.cell.is_over:
                return
            self._take_setup(self.cell)
            self.cell = None
        if self.is_over:
            return
        if self._setup:
            self.cell = self._setup.pop(0)
            self._say(f"setup cell {self.cell.label} on {name_ranks(self.cell.ranks)}")
            self.cell.start(now_s)
        else:
            self._ask_names(now_s)

    def _take_setup(self, cell: CellRun) -> None:
        self._replayed.append(cell.label)
        for rank, status in cell.statuses.items():
            if status != "ok":
                what = cell.errors.get(rank) or status
                self._problems.append(f"setup cell {cell.label} on {name_rank(rank)}: {what}")
        if "interrupted" in cell.statuses.values():
            self._setup.clear()
        busy = [rank for rank in cell.ranks if self._roster[rank].state is EngineState.BUSY]
        if busy:
            verb = fit(busy, "does", "do")
            self._fail(
                f"{name_ranks(busy)} {verb} not respond to the interrupt of setup cell {cell.label}"
            )

    def _ask_names(self, now_s: float) -> None:
        present = self._roster.present_ranks()
        about = ListNames(with_values=False)
        self._enter(HealingEvent.SET_UP, now_s + NAMES_PATIENCE_S + 1.0)
        self._parts.cell.questions.ask(present, about, NAMES_PATIENCE_S, now_s, self._names.append)

    def _await_names(self, now_s: float) -> None:
        if not self._names and now_s < self._deadline_s:
            self._say("comparing what ranks have")
            return
        self._enter(HealingEvent.COMPARED)
        self._sender.to_client(
            self.client,
            RanksHealed(
                self.request_id,
                self._rendezvous.generation,
                {rank: seat.host for rank, seat in self._seats.items()},
                tuple(self._replayed),
                tuple(self._problems),
                find_missing(self._names[0], self._targets) if self._names else {},
                self._take_notes(),
            ),
        )

    # --- inside ---

    def _excused_s(self, hosts: Sequence[str]) -> float:
        """Return for how long new agents of these hosts were there and had no core."""
        return min(HOST_MOST_EXCUSED_S, max(map(self._arrivals.waited_s, hosts)))

    def _lost_hosts(self) -> list[str]:
        hosts = dict.fromkeys(self._roster[rank].info.host for rank in self._targets)
        return [host for host in hosts if self._roster.hosts[host].is_lost]

    def _explain_no_seat(self, rank: int) -> str:
        host = self._roster[rank].info.host
        late = f"it has not come back within {HOST_PATIENCE_S:g} s"
        why = self._arrivals.why_not_back(host) or late
        return (
            f"{name_rank(rank)} has no place: host {host} is lost ({why}), and no other host "
            "has a free slot. %dist_shrink goes on with the others"
        )

    def _make_cell(self, number: int, request: SubmitCell) -> CellRun:
        """Make a cell that nobody watches."""
        of_its_own = replace(self._parts.cell, log=OutputLog())
        cell_id = f"heal-{self._rendezvous.generation}-{number}"
        return CellRun(NOBODY, request, cell_id, of_its_own)

    def _enter(self, event: HealingEvent, deadline_s: float = 0.0) -> None:
        self.stage, self._deadline_s = next_stage(self.stage, event), deadline_s

    def _begin_again(self, event: HealingEvent) -> None:
        """Replace all that are lost by now, with those that were being replaced.

        The ranks of a host are not known to be lost all at once, nor with the host.
        """
        self._enter(event)
        self._drop_unborn("another rank was lost meanwhile, and all are replaced together")
        self._seats.clear()
        self._targets = tuple(self._roster.lost_ranks())
        self._kill_targets()

    def _kill_targets(self) -> None:
        """End their processes: a lost rank may have one, stopped or out of reach for a while."""
        self._roster.condemn(self._targets)
        self._sender.send_signal(self._targets, RankSignal.SIGKILL, f"heal-{self.request_id}")

    def _drop_unborn(self, reason: str) -> None:
        """End new engines that are not needed any more."""
        unborn = [rank for rank in self._seats if self._roster[rank].is_present]
        self._sender.send_signal(unborn, RankSignal.SIGKILL, f"unheal-{self.request_id}")
        for rank in unborn:
            self._roster.lose(rank, reason)
            self._rendezvous.on_lost(rank)

    def _fail(self, problem: str, code: ErrorCode = ErrorCode.HEAL_FAILED) -> None:
        """End with what has gone wrong."""
        self._enter(HealingEvent.FAILED)
        self.problem = problem
        self._drop_unborn(f"healing has failed: {problem}")
        self._sender.refuse(self.client, self.request_id, code, f"{problem}.")


def find_missing(answers: Answers, new: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Return the names that ranks which were there before have, and new ranks lack."""
    names = {
        rank: dict.fromkeys(info.name for info in answer.names)
        for rank, answer in sorted(answers.answers.items())
        if isinstance(answer, RankNames)
    }
    old = (name for rank, own in names.items() if rank not in new for name in own)
    found: dict[str, tuple[int, ...]] = {}
    for name in dict.fromkeys(old):
        lacking = tuple(rank for rank in new if rank in names and name not in names[rank])
        if lacking:
            found[name] = lacking
    return found
