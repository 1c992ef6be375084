"""The coordinator's one loop: everything that happens lands here and is handed to its part.

It sleeps until something happens, or until the time that one of the parts has named.
"""

from collections.abc import Callable, Sequence
from time import monotonic

import msgspec

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.poller import Poller, Source
from jupyter_dist.control.relay.engine_router import EngineRouter
from jupyter_dist.control.router import Received, Router
from jupyter_dist.coordinator.agent_events import AgentEvents
from jupyter_dist.coordinator.agents.agent_service import AgentService
from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.deployment import Deployment
from jupyter_dist.coordinator.agents.message_sender import MessageSender
from jupyter_dist.coordinator.cells.background_collectives import BackgroundCollectives
from jupyter_dist.coordinator.cells.cell_run import FLUSH_INTERVAL_S, CellParts, FromCell
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.cells.setup_cells import SetupCells
from jupyter_dist.coordinator.cells.transfers import FromTransfer
from jupyter_dist.coordinator.clients.client_registry import ClientRegistry
from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.coordinator.clients.pictures import Pictures
from jupyter_dist.coordinator.clients.snapshot import Snapshot
from jupyter_dist.coordinator.clients.widget_relay import WidgetRelay
from jupyter_dist.coordinator.ipyparallel.controller import IpyparallelController
from jupyter_dist.coordinator.observation.attention import Attention
from jupyter_dist.coordinator.observation.call_records import CallRecords
from jupyter_dist.coordinator.observation.heartbeats import Heartbeats
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.own_errors import OwnErrors
from jupyter_dist.coordinator.preemption.preemption import Preemption
from jupyter_dist.coordinator.recovery.healing import HealingParts
from jupyter_dist.coordinator.recovery.host_events import HostEvents, Reach
from jupyter_dist.coordinator.recovery.losses import Losses
from jupyter_dist.coordinator.recovery.recovery import Recovery
from jupyter_dist.coordinator.rendezvous.framework_services import FrameworkServices
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.rendezvous.store import Store
from jupyter_dist.coordinator.requests import Parts, Requests
from jupyter_dist.coordinator.shutdown import dismiss_agents
from jupyter_dist.coordinator.state.clock import NEVER, TICK_S
from jupyter_dist.coordinator.state.engine_state import EngineEvent
from jupyter_dist.coordinator.state.roster import EngineRecord, Roster
from jupyter_dist.coordinator.ticks import Ticks
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.protocol.messages import (
    Answered,
    AwaitValue,
    CellOutput,
    CellResult,
    ControllerJoined,
    ControllerLeft,
    FetchedPiece,
    FromBridge,
    FromClient,
    FromDap,
    FromDebugger,
    FromRank,
    FromWidgets,
    Hello,
    JoinCollective,
    Leave,
    NoticeHandled,
    NoticePosition,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    PutValue,
    Ready,
    RequestService,
    ShowPresence,
    TaskBegan,
    TaskEnded,
    WatchNotices,
    WithdrawCollective,
)

BUSY_TICK_S = FLUSH_INTERVAL_S
START_TICK_S = 0.1
"""How often it is looked whether agents that are started have ended."""
_LEAST_READ = 200
"""So many messages of ranks may be read one after the other."""
_OF_PROCESSES = FromBridge | FromWidgets | FromDap | FromDebugger
"""What they say may bear the rank that they had before."""


class Coordinator:
    """Owns the sockets and the clock; the parts decide."""

    def __init__(  # noqa: PLR0913, PLR0917  (every socket has one owner, and this is it)
        self,
        spec: ClusterSpec,
        engines: EngineRouter,
        clients: Router[FromClient],
        beats: HeartbeatMonitor,
        agents: AgentService,
        arrivals: Arrivals,
        credentials: Credentials,
    ) -> None:
        self._spec, self._arrivals = spec, arrivals
        self._engines, self._clients, self._beats, self._agents = engines, clients, beats, agents
        roster = self.roster = Roster(spec)
        """All ranks and hosts as they are, with the names and slots that they have told."""
        sender = self._sender = MessageSender(self.roster, engines, clients, beats, agents)
        rendezvous = self._rendezvous = Rendezvous(self.roster, sender)
        self._rendezvous.always_formed = ("jax",) if spec.jax == "start" else ()
        self._store = Store(self._rendezvous, sender)
        parts = self._cell_parts = CellParts.make(roster, rendezvous, sender)
        self._background = BackgroundCollectives(roster, rendezvous, sender, parts.held.time)
        self._services = FrameworkServices(self.roster, self._store, sender)
        self._scheduler = CellScheduler(self.roster, self._rendezvous, sender)
        self._scheduler.signals_under_way = sender.signals_under_way
        self._losses = Losses(roster, rendezvous, self._scheduler, self.fail_start, agents.attends)
        reach = Reach(Deployment(spec, credentials), arrivals, sender)
        self._hosts = HostEvents(roster, self._rendezvous, self._scheduler, self._losses, reach)
        attention = Attention(roster, sender)
        self._pictures = Pictures(self._rendezvous, sender, self.describe, attention.is_fresh)
        registry = self._client_registry = ClientRegistry(
            self.roster, self._rendezvous, sender, spec.keep_s, arrivals, self._hosts.list_notes
        )
        excuse = self._client_registry.excuse_silence  # what clients said is yet to be read
        self._heartbeats = Heartbeats(roster, beats, engines, clients, spec.health, excuse)
        self._ipyparallel = IpyparallelController(roster, rendezvous, sender, spec, registry)
        self._snapshot, self._code_sync = Snapshot(roster, arrivals.job), CodeSync(roster, sender)
        self._widgets, self._call_records = WidgetRelay(roster, sender), CallRecords(roster, sender)
        self._recovery = self._make_recovery()
        self._preemption = Preemption(parts, self._scheduler, arrivals.job)
        self._agent_events = self._make_agent_events()
        all_parts = self._make_parts()
        self._requests = Requests(all_parts)
        self._ticks = Ticks(all_parts, agents, self._background, attention, self._heartbeats)
        self.own_errors = OwnErrors(self._scheduler.tell_cell, lambda: self.has_been_ready)
        self.start_problem = ""
        """Why the cluster cannot become ready, or empty."""
        self.is_stopping = False

    def _make_recovery(self) -> Recovery:
        spec = self._spec
        parts = HealingParts(
            self._cell_parts,
            SetupCells(),
            self._hosts,
            self._arrivals,
            spec.oversubscribe,
            spec.timeout_s,
            self._beats,
        )
        return Recovery(self._scheduler, self._losses, parts, spec.on_loss)

    def _make_agent_events(self) -> AgentEvents:
        return AgentEvents(
            self._agents,
            self._hosts,
            self._code_sync,
            self._call_records,
            self._cell_parts.questions,
            self._cell_parts.ras,
            self._services,
            self._preemption,
        )

    def _make_parts(self) -> Parts:
        return Parts(
            cell=self._cell_parts,
            scheduler=self._scheduler,
            client_registry=self._client_registry,
            pictures=self._pictures,
            widgets=self._widgets,
            code_sync=self._code_sync,
            recording=self._call_records,
            losses=self._losses,
            recovery=self._recovery,
            parallel=self._ipyparallel,
            preemption=self._preemption,
        )

    # --- the loop ---

    def serve(self, on_tick: Callable[[float], float]) -> None:
        """Run until the cluster is stopped, is not wanted any more, or cannot start.

        `on_tick` takes the time, and returns when it wants to be called again at the latest.
        """
        poller = Poller()
        for source in (self._engines, self._clients, self._agents.waker):
            poller.add(source)
        deadline_s = monotonic() + self._spec.timeout_s
        scheduler, heartbeats = self._scheduler, self._heartbeats
        ticked_s = due_s = 0.0
        while not self.is_stopping:
            is_busy = scheduler.current is not None
            ready = poller.wait(BUSY_TICK_S if is_busy else self._rest_s(due_s))
            now_s = monotonic()
            try:
                is_news = self._take(ready, now_s)
                scheduler.advance(now_s)
            except Exception as error:  # noqa: BLE001
                is_news = self.own_errors.survive(error)
            if is_news or is_busy or scheduler.has_work:
                due_s = min(due_s, ticked_s + TICK_S)
            if now_s >= heartbeats.due_s and due_s < now_s + heartbeats.interval_s:
                due_s = now_s  # it would be before the next beats
            try:
                if now_s >= due_s:
                    ticked_s, due_s = now_s, now_s + TICK_S
                    due_s = min(self._tick(now_s, deadline_s), on_tick(now_s))
                    scheduler.advance(now_s)
                elif now_s >= heartbeats.due_s:
                    heartbeats.tick(now_s)
            except Exception as error:  # noqa: BLE001
                self.own_errors.survive(error)

    def _rest_s(self, due_s: float) -> float:
        """Return for how long nothing is to be done unless something happens, in seconds."""
        if self._scheduler.has_work:
            return TICK_S
        return max(0.0, min(due_s, self._heartbeats.latest_s) - monotonic())

    def stop(self) -> None:
        """Have `serve` end; also from the handler of a signal."""
        self.is_stopping = True
        self._agents.waker.wake()

    def _take(self, ready: Sequence[Source], now_s: float) -> bool:
        """Hand over what has come; return whether it is more than clients who show themselves."""
        is_news = False
        for source in ready:
            if source is self._engines:
                is_news = True
                for received in self._engines.receive(self._most_read):
                    self._take_from_engine(received, now_s)
            elif source is self._clients:
                for received in self._clients.receive():
                    self._requests.on_request(received, now_s)
                    is_news |= not isinstance(received.message, ShowPresence)
            else:
                is_news = True
                self._agent_events.take(now_s)
        return is_news

    @property
    def _most_read(self) -> int:
        """What all ranks may have said is read before it is judged who has said nothing."""
        return max(_LEAST_READ, 2 * self.roster.world_size)

    def _take_from_engine(self, received: Received, now_s: float) -> None:
        engine = self.roster.find(received.identity.decode(errors="replace"))
        message = received.message
        if engine is None:  # its rank has another engine by now
            self._sender.to_stranger(received.identity, Leave())
        elif received.problem is not None:
            self._scheduler.on_unreadable(engine.info.rank, received.problem)
        elif isinstance(message, _OF_PROCESSES):
            message = msgspec.structs.replace(message, rank=engine.info.rank)
            self._on_engine(engine, message, received.buffers, now_s)
        elif engine.info.rank == message.rank:
            self._on_engine(engine, message, received.buffers, now_s)

    def _tick(self, now_s: float, start_deadline_s: float) -> float:
        """Let all parts look at the clock; return when the first of them wants to do so again."""
        self._heartbeats.tick(now_s)  # who is not asked is silent, so nothing may come between
        self._agent_events.take(now_s)
        self._requests.tick(now_s)
        due_s = min(self._ticks.look(now_s), self._watch_start(now_s, start_deadline_s))
        self.is_stopping |= self._is_unwanted(now_s)
        return due_s

    def _is_unwanted(self, now_s: float) -> bool:
        return (
            self._requests.stop_request is not None
            or self._recovery.wants_end
            or (self._client_registry.is_gone(now_s) and not self._requests.has_living_owner)
            or (bool(self.start_problem) and self._client_registry.heard_refusal)
        )

    # --- engines ---

    def _on_engine(
        self, engine: EngineRecord, message: FromRank, buffers: list[Frame], now_s: float
    ) -> None:
        match message:
            case CellOutput() | CellResult() | JoinCollective() | WithdrawCollective():
                self._on_cell(engine, message, buffers, now_s)
            case Hello() | Ready() | NotReady():
                self._rendezvous.on_message(message)
                self._tell_if_ready(now_s)
                self._client_registry.on_progress(now_s)
            case ObjectsStored() | ObjectFetched() | FetchedPiece():
                self._on_object(engine, message, buffers)
            case PutValue() | AwaitValue():
                self._store.on_message(message, buffers)
            case RequestService():
                self._services.on_want(message)
            case Answered():
                self._cell_parts.questions.on_answered(message)
            case ControllerJoined() | ControllerLeft() | TaskBegan() | TaskEnded():
                self._ipyparallel.on_engine(message, now_s)
            case WatchNotices() | NoticePosition() | NoticeHandled():
                self._preemption.on_engine(message, now_s)
            case _:
                self._requests.on_rank(engine, message, buffers, now_s)

    def _on_cell(
        self, engine: EngineRecord, message: FromCell, buffers: list[Frame], now_s: float
    ) -> None:
        if isinstance(message, (CellOutput, CellResult)):
            engine.offsets = message.offsets
        if isinstance(message, CellResult):
            engine.end_work()
        if (cell := self._scheduler.find_cell(message.cell_id)) is not None:
            cell.on_message(message, buffers, now_s)
        elif isinstance(message, JoinCollective | WithdrawCollective):
            self._background.on_message(message, buffers, now_s)

    def _on_object(self, engine: EngineRecord, message: FromTransfer, buffers: list[Frame]) -> None:
        if not isinstance(message, FetchedPiece):
            engine.end_work()
        if (transfer := self._scheduler.transfer) is not None:
            transfer.on_answer(message, buffers)

    # --- start and stop ---

    def _watch_start(self, now_s: float, deadline_s: float) -> float:
        """Give up a start that cannot succeed; return when that is to be looked at again."""
        if self._client_registry.has_been_ready or self.start_problem:
            return NEVER
        missing = [host.name for host in self.roster.missing_hosts]
        problem = self._hosts.problem or self._rendezvous.problem
        if problem:
            self.fail_start(problem)
        elif absence := self._arrivals.problem(missing, now_s):
            self._refuse_start(absence)
        elif now_s > deadline_s and missing:
            what = f"not all hosts joined within {self._spec.timeout_s:g} s"
            self._refuse_start(f"{what}. {self._arrivals.explain_missing(missing)}")
        elif now_s > deadline_s:
            ranks = name_ranks(self._rendezvous.awaited_ranks)
            self.fail_start(f"{ranks} not ready within {self._spec.timeout_s:g} s")
        return now_s + START_TICK_S

    def _tell_if_ready(self, now_s: float) -> None:
        if not self.start_problem and self._rendezvous.is_complete:
            self._client_registry.tell_ready(now_s)

    def fail_start(self, problem: str) -> None:
        """Give up starting; clients are told why, with what agents and zygotes have said last."""
        log, problem = self._arrivals.log_tail(self._agents.left), self._hosts.problem or problem
        self._refuse_start(f"{problem}. The agents said last:\n{log}" if log else problem)

    def _refuse_start(self, problem: str) -> None:
        if not self._client_registry.has_been_ready and not self.start_problem:
            self.start_problem = problem
            self._client_registry.tell_start_failed(problem)

    def leave(self) -> set[str]:
        """Let every engine and agent end, and wait for their word, at most a few seconds.

        Gives the hosts whose agent has not confirmed: it never came, is stuck, or was lost.
        """
        self._ipyparallel.close()
        for rank in self.roster.present_ranks():
            self._sender.to_engine(rank, Leave())
            self.roster[rank].apply(EngineEvent.TOLD_TO_LEAVE)
        self._pictures.say_farewell()
        return dismiss_agents(self.roster, self._agents, self._hosts)

    @property
    def has_been_ready(self) -> bool:
        """All ranks have been there together once."""
        return self._client_registry.has_been_ready

    @property
    def stop_request(self) -> tuple[bytes, str] | None:
        """Client and request that asked for the end, to be answered last of all."""
        return self._requests.stop_request

    def describe(self, state: str = "") -> Topology:
        """Describe everything at this moment."""
        now_s = monotonic()
        ages = self._heartbeats.ages_s(now_s)
        verdict = self._scheduler.judge()
        if not verdict.text:
            notes = self._recovery.note, self._preemption.note, self.own_errors.note
            verdict = HangVerdict("", next(filter(None, notes), ""))
        state = state or ("ready" if self._client_registry.has_been_ready else "starting")
        return self._snapshot.draw(state, self._rendezvous.generation, verdict, ages, now_s)
