"""The coordinator's one loop: everything that happens lands here and is handed to its part."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import assert_never

import msgspec

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.poller import Poller, Source
from jupyter_dist.control.router import Received, Router
from jupyter_dist.coordinator.agent_events import AgentEvents
from jupyter_dist.coordinator.agents.agent_service import AgentService
from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.deployment import Deployment
from jupyter_dist.coordinator.agents.message_sender import MessageSender
from jupyter_dist.coordinator.cells.background_collectives import BackgroundCollectives
from jupyter_dist.coordinator.cells.cell_run import FLUSH_INTERVAL_S, CellParts, FromCell
from jupyter_dist.coordinator.cells.output_log import OutputLog
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.cells.setup_cells import SetupCells
from jupyter_dist.coordinator.clients.client_registry import ClientRegistry
from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.coordinator.clients.snapshot import Snapshot
from jupyter_dist.coordinator.ipyparallel.controller import IpyparallelController
from jupyter_dist.coordinator.observation.call_records import CallRecords
from jupyter_dist.coordinator.observation.nccl_diagnostics import RasReading
from jupyter_dist.coordinator.observation.rank_queries import RankQueries
from jupyter_dist.coordinator.observation.verdict import HangVerdict
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
from jupyter_dist.coordinator.state.engine_state import EngineEvent
from jupyter_dist.coordinator.state.roster import Roster
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
    FromBridge,
    FromClient,
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
    TaskBegan,
    TaskEnded,
    ToCoordinator,
    WatchNotices,
    WithdrawCollective,
)

TICK_S = 0.1
BUSY_TICK_S = FLUSH_INTERVAL_S
OWN_ABSENCE_S = 1.0
"""A coordinator that was itself held up for so long (a machine asleep) blames nobody."""


class Coordinator:
    """Owns the sockets and the clock; the parts decide."""

    def __init__(  # noqa: PLR0913, PLR0917  (every socket has one owner, and this is it)
        self,
        spec: ClusterSpec,
        engines: Router[ToCoordinator],
        clients: Router[FromClient],
        beats: HeartbeatMonitor,
        agents: AgentService,
        arrivals: Arrivals,
        credentials: Credentials,
    ) -> None:
        self._spec, self._arrivals = spec, arrivals
        self._engines, self._clients, self._beats, self._agents = engines, clients, beats, agents
        self.roster = Roster(spec)
        """All ranks and hosts as they are, with the names and slots that they have told."""
        self._snapshot = Snapshot(self.roster, arrivals.job)
        sender = self._sender = MessageSender(self.roster, engines, clients, agents)
        self._rendezvous = Rendezvous(self.roster, sender)
        self._rendezvous.always_formed = ("jax",) if spec.jax == "start" else ()
        self._store = Store(self._rendezvous, sender)
        self._background = BackgroundCollectives(self.roster, self._rendezvous, sender)
        self._services = FrameworkServices(self.roster, self._store, sender)
        self._scheduler = CellScheduler(self.roster, self._rendezvous, sender)
        self._scheduler.signals_under_way = sender.signals_under_way
        self._losses = Losses(self.roster, self._rendezvous, self._scheduler, self.fail_start)
        reach = Reach(Deployment(spec, credentials), arrivals, sender)
        self._hosts = HostEvents(
            self.roster, self._rendezvous, self._scheduler, self._losses, reach
        )
        self._client_registry = ClientRegistry(
            self.roster, self._rendezvous, sender, spec.keep_s, arrivals, self._hosts.list_notes
        )
        self._ipyparallel = IpyparallelController(
            self.roster, self._rendezvous, sender, spec, self._client_registry
        )
        self._code_sync = CodeSync(self.roster, sender)
        self._call_records = CallRecords(self.roster, sender)
        self._queries = RankQueries(self.roster, sender)
        self._ras = RasReading(sender)
        self._cell_parts = CellParts(
            self.roster, self._rendezvous, sender, self._queries, OutputLog(), self._ras
        )
        self._recovery = self._make_recovery()
        self._preemption = Preemption(self._cell_parts, self._scheduler, arrivals.job)
        self._agent_events = self._make_agent_events()
        self._requests = self._make_requests()
        self._next_beat_s = 0.0
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
            self._queries,
            self._ras,
            self._services,
            self._preemption,
        )

    def _make_requests(self) -> Requests:
        return Requests(
            Parts(
                cell=self._cell_parts,
                scheduler=self._scheduler,
                client_registry=self._client_registry,
                code_sync=self._code_sync,
                recording=self._call_records,
                losses=self._losses,
                recovery=self._recovery,
                parallel=self._ipyparallel,
                describe=self.describe,
            )
        )

    # --- the loop ---

    def serve(self, on_tick: Callable[[float], None]) -> None:
        """Run until the cluster is stopped, is not wanted any more, or cannot start."""
        poller = Poller()
        for source in (self._engines, self._clients, self._beats, self._agents.waker):
            poller.add(source)
        deadline_s = monotonic() + self._spec.timeout_s
        next_tick_s = 0.0
        while not self.is_stopping:
            ready = poller.wait(TICK_S if self._scheduler.current is None else BUSY_TICK_S)
            now_s = monotonic()
            self._take(ready, now_s)
            if now_s >= next_tick_s:
                next_tick_s = now_s + TICK_S / 2
                self._agent_events.take(now_s)  # what is known by the time that has passed
                self._tick(now_s, deadline_s)
                on_tick(now_s)
            self._scheduler.advance(now_s)

    def _take(self, ready: Sequence[Source], now_s: float) -> None:
        for source in ready:
            if source is self._engines:
                for received in self._engines.receive():
                    self._take_from_engine(received, now_s)
            elif source is self._clients:
                for received in self._clients.receive():
                    self._requests.on_request(received, now_s)
            elif source is self._beats:
                self._beats.receive()
            else:
                self._agent_events.take(now_s)

    def _take_from_engine(self, received: Received, now_s: float) -> None:
        engine = self.roster.find(received.identity.decode(errors="replace"))
        message = received.message
        if engine is None:  # its rank has another engine by now
            self._sender.to_stranger(received.identity, Leave())
        elif received.problem is not None:
            if work := self._scheduler.cell or self._scheduler.transfer:
                work.on_unreadable(engine.info.rank, received.problem)
        elif isinstance(message, FromBridge):  # in a task it does not hear of its new rank
            self._on_engine(msgspec.structs.replace(message, rank=engine.info.rank), [], now_s)
        elif engine.info.rank == message.rank:
            self._on_engine(message, received.buffers, now_s)

    def _tick(self, now_s: float, start_deadline_s: float) -> None:
        self._losses.tick(now_s)
        self._background.tick(now_s)
        self._requests.tick(now_s)
        if now_s >= self._next_beat_s:
            if now_s - self._next_beat_s > OWN_ABSENCE_S:
                self._beats.excuse_silence()
                self._client_registry.excuse_silence(now_s)  # what clients said is yet to be read
            self._next_beat_s = now_s + self._spec.health.interval_s
            engines = [self.roster[rank] for rank in self.roster.present_ranks()]
            self._clients.keep_less()
            self._engines.keep_only([engine.identity for engine in engines])
            # Silence counts from the first question, so engines are asked once they are born.
            self._beats.ask(engine.identity for engine in engines if engine.pid)
        self._losses.judge(self._beats, self._spec.health, now_s)
        if self._scheduler.cell is not None:
            self._client_registry.excuse_silence(now_s)
        self._client_registry.tick(self.describe, now_s)
        self._call_records.tick(now_s)
        self._queries.tick(now_s)
        self._preemption.tick(now_s)
        self._recovery.tick(now_s)
        self._ipyparallel.tick(now_s)
        if not self._client_registry.has_been_ready and not self.start_problem:
            self._watch_start(now_s, start_deadline_s)
        if (
            self._requests.stop_request is not None
            or self._recovery.wants_end
            or self._client_registry.is_gone(now_s)
            or (self.start_problem and self._client_registry.heard_refusal)
        ):
            self.is_stopping = True

    # --- engines ---

    def _on_engine(self, message: ToCoordinator, buffers: list[Frame], now_s: float) -> None:
        match message:
            case Hello() | Ready() | NotReady():
                self._rendezvous.on_message(message)
                self._tell_if_ready(now_s)
            case CellOutput() | CellResult() | JoinCollective() | WithdrawCollective():
                self._on_cell(message, buffers, now_s)
            case ObjectsStored() | ObjectFetched():
                self.roster.end_work(message.rank)
                if self._scheduler.transfer is not None:
                    self._scheduler.transfer.on_answer(message, buffers)
            case PutValue() | AwaitValue():
                self._store.on_message(message, buffers)
            case RequestService():
                self._services.on_want(message)
            case Answered():
                self._queries.on_answered(message)
            case ControllerJoined() | ControllerLeft() | TaskBegan() | TaskEnded():
                self._ipyparallel.on_engine(message, now_s)
            case WatchNotices() | NoticePosition() | NoticeHandled():
                self._preemption.on_engine(message, now_s)
            case _:
                assert_never(message)
        self._client_registry.on_progress(now_s)

    def _on_cell(self, message: FromCell, buffers: list[Frame], now_s: float) -> None:
        if isinstance(message, CellOutput | CellResult):
            self.roster[message.rank].offsets = message.offsets
        if isinstance(message, CellResult):
            self.roster.end_work(message.rank)
        cell = self._scheduler.cell
        if cell is not None and cell.cell_id == message.cell_id:
            cell.on_message(message, buffers, now_s)
        elif isinstance(message, JoinCollective | WithdrawCollective):
            self._background.on_message(message, buffers, now_s)

    # --- start and stop ---

    def _watch_start(self, now_s: float, deadline_s: float) -> None:
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

    def _tell_if_ready(self, now_s: float) -> None:
        if not self.start_problem and self._rendezvous.is_complete:
            self._client_registry.tell_ready(now_s)

    def fail_start(self, problem: str) -> None:
        """Give up starting; clients are told why, with what agents and zygotes have said last."""
        log, problem = self._arrivals.log_tail(), self._hosts.problem or problem
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
        self._client_registry.say_farewell(self.describe)
        return dismiss_agents(self.roster, self._agents, self._hosts)

    @property
    def stop_request(self) -> tuple[bytes, str] | None:
        """Client and request that asked for the end, to be answered last of all."""
        return self._requests.stop_request

    def describe(self, state: str = "") -> Topology:
        """Describe everything at this moment."""
        now_s = monotonic()
        ages = {
            rank: now_s - self._beats.last_beat_s(self.roster[rank].identity)
            for rank in self.roster.present_ranks()
        }
        verdict = self._scheduler.judge()
        if not verdict.text:
            verdict = HangVerdict("", self._recovery.note or self._preemption.note)
        state = state or ("ready" if self._client_registry.has_been_ready else "starting")
        return self._snapshot.draw(state, self._rendezvous.generation, verdict, ages, now_s)
