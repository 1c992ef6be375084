"""The coordinator's one loop: everything that happens lands here and is handed to its part."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import assert_never

import msgspec

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.poller import Poller, Source
from jupyter_dist.control.router import Received, Router
from jupyter_dist.coordinator.agent_events import AgentEvents, Listeners
from jupyter_dist.coordinator.agents import AgentService
from jupyter_dist.coordinator.arrivals import Arrivals
from jupyter_dist.coordinator.audience import Audience
from jupyter_dist.coordinator.cells import FLUSH_INTERVAL_S, CellParts, FromCell
from jupyter_dist.coordinator.deployment import Deployment
from jupyter_dist.coordinator.dispatch import Dispatch
from jupyter_dist.coordinator.farewell import dismiss_agents, dismiss_engines
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.healing import HealingParts
from jupyter_dist.coordinator.hosts import Hosts, Reach
from jupyter_dist.coordinator.losses import Losses
from jupyter_dist.coordinator.nccl_witness import RasReading
from jupyter_dist.coordinator.output_log import OutputLog
from jupyter_dist.coordinator.parallel import FromBridge, Parallel
from jupyter_dist.coordinator.picture import Picture
from jupyter_dist.coordinator.preemption import Preemption
from jupyter_dist.coordinator.questions import Questions
from jupyter_dist.coordinator.recording import Recording
from jupyter_dist.coordinator.recovery import Recovery
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.requests import Parts, Requests
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.coordinator.services import Services
from jupyter_dist.coordinator.setup_cells import SetupCells
from jupyter_dist.coordinator.standing import StandingMeetings
from jupyter_dist.coordinator.syncing import Syncing
from jupyter_dist.coordinator.values import Values
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.model.spec import ClusterSpec, HostSpec
from jupyter_dist.model.topology import Topology
from jupyter_dist.model.verdict import Verdict
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.protocol.messages import (
    Answered,
    Attend,
    AwaitValue,
    CellOutput,
    CellResult,
    ControllerJoined,
    ControllerLeft,
    FromClient,
    Hello,
    Leave,
    LeaveMeeting,
    NoticeHandled,
    NoticePosition,
    NoticesWanted,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    PutValue,
    Ready,
    TaskBegan,
    TaskEnded,
    ToCoordinator,
    WantService,
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
        self._roster = Roster(spec)
        self._picture = Picture(self._roster, arrivals.job)
        outbox = self._outbox = Dispatch(self._roster, engines, clients, agents)
        self._rendezvous = Rendezvous(self._roster, outbox)
        self._rendezvous.always_formed = ("jax",) if spec.jax == "start" else ()
        self._values = Values(self._rendezvous, outbox)
        self._standing = StandingMeetings(self._roster, self._rendezvous, outbox)
        self._services = Services(self._roster, self._values, agents.send)
        self._fence = Fence(self._roster, self._rendezvous, outbox)
        self._fence.signals_under_way = outbox.signals_under_way
        self._audience = Audience(self._roster, self._rendezvous, outbox, spec.keep_s, arrivals)
        self._questions = Questions(self._roster, outbox, agents.send)
        self._losses = Losses(self._roster, self._rendezvous, self._fence, self.fail_start)
        self._hosts = Hosts(
            self._roster,
            self._rendezvous,
            self._fence,
            self._losses,
            Reach(Deployment(spec, credentials), arrivals, agents.send),
        )
        self._audience.list_notes = self._hosts.list_notes
        self._parallel = Parallel(self._roster, outbox, spec)
        self._parallel.has_been_ready = lambda: self._audience.has_been_ready
        self._syncing = Syncing(self._roster, outbox, agents.send)
        self._recording = Recording(self._roster, outbox, agents.send)
        ras = RasReading(agents.send)
        cell_parts = CellParts(
            self._roster, self._rendezvous, outbox, self._questions, OutputLog(), ras
        )
        self._preemption = Preemption(cell_parts, self._fence, agents.send, arrivals.job)
        self._agent_events = AgentEvents(
            agents,
            Listeners(
                self._hosts,
                self._syncing,
                self._recording,
                self._questions,
                ras,
                self._services,
                self._preemption,
            ),
        )
        self._recovery = self._make_recovery(cell_parts)
        self._requests = Requests(
            Parts(
                cell=cell_parts,
                fence=self._fence,
                audience=self._audience,
                syncing=self._syncing,
                recording=self._recording,
                losses=self._losses,
                recovery=self._recovery,
                parallel=self._parallel,
            )
        )
        self._next_beat_s = 0.0
        self.start_problem = ""
        """Why the cluster cannot become ready, or empty."""
        self.is_stopping = False

    def _make_recovery(self, cell_parts: CellParts) -> Recovery:
        parts = HealingParts(
            cell_parts,
            SetupCells(),
            self._hosts,
            self._spec.oversubscribe,
            self._spec.timeout_s,
            self._beats,
        )
        recovery = Recovery(self._fence, self._losses, parts, self._spec.on_loss)
        self._fence.on_over = recovery.on_over
        self._losses.announce = recovery.announce
        return recovery

    # --- the loop ---

    def serve(self, on_tick: Callable[[float], None]) -> None:
        """Run until the cluster is stopped, is not wanted any more, or cannot start."""
        poller = Poller()
        for source in (self._engines, self._clients, self._beats, self._agents.waker):
            poller.add(source)
        deadline_s = monotonic() + self._spec.timeout_s
        next_tick_s = 0.0
        while not self.is_stopping:
            ready = poller.wait(TICK_S if self._fence.current is None else BUSY_TICK_S)
            now_s = monotonic()
            self._take(ready, now_s)
            if now_s >= next_tick_s:
                next_tick_s = now_s + TICK_S / 2
                self._agent_events.take(now_s)  # what is known by the time that has passed
                self._tick(now_s, deadline_s)
                on_tick(now_s)
            self._fence.advance(now_s)

    def _take(self, ready: Sequence[Source], now_s: float) -> None:
        for source in ready:
            if source is self._engines:
                for received in self._engines.receive():
                    self._take_from_engine(received, now_s)
            elif source is self._clients:
                for received in self._clients.receive():
                    self._requests.on_request(received, self.describe, now_s)
            elif source is self._beats:
                self._beats.receive()
            else:
                self._agent_events.take(now_s)

    def _take_from_engine(self, received: Received, now_s: float) -> None:
        engine = self._roster.find(received.identity.decode(errors="replace"))
        message = received.message
        if engine is None:  # its rank has another engine by now
            self._outbox.to_stranger(received.identity, Leave())
        elif received.problem is not None:
            if work := self._fence.cell or self._fence.transfer:
                work.on_unreadable(engine.info.rank, received.problem)
        elif isinstance(message, FromBridge):  # in a task it does not hear of its new rank
            self._on_engine(msgspec.structs.replace(message, rank=engine.info.rank), [], now_s)
        elif engine.info.rank == message.rank:
            self._on_engine(message, received.buffers, now_s)

    def _tick(self, now_s: float, start_deadline_s: float) -> None:
        self._losses.tick(now_s)
        self._standing.tick(now_s)
        self._requests.tick(now_s)
        if now_s >= self._next_beat_s:
            if now_s - self._next_beat_s > OWN_ABSENCE_S:
                self._beats.excuse_silence()
                self._audience.excuse_silence(now_s)  # what clients said is yet to be read
            self._next_beat_s = now_s + self._spec.health.interval_s
            engines = [self._roster[rank] for rank in self._roster.present_ranks()]
            self._clients.keep_less()
            self._engines.keep_only([engine.identity for engine in engines])
            # Silence counts from the first question, so engines are asked once they are born.
            self._beats.ask(engine.identity for engine in engines if engine.pid)
        self._losses.judge(self._beats, self._spec.health, now_s)
        if self._fence.cell is not None:
            self._audience.excuse_silence(now_s)
        self._audience.tick(self.describe, now_s)
        self._recording.tick(now_s)
        self._questions.tick(now_s)
        self._preemption.tick(now_s)
        self._recovery.tick(now_s)
        self._parallel.tick(now_s)
        if not self._audience.has_been_ready and not self.start_problem:
            self._watch_start(now_s, start_deadline_s)
        if (
            self._requests.stop_request is not None
            or self._recovery.wants_end
            or self._audience.is_gone(now_s)
            or (self.start_problem and self._audience.heard_refusal)
        ):
            self.is_stopping = True

    # --- engines ---

    def _on_engine(self, message: ToCoordinator, buffers: list[Frame], now_s: float) -> None:
        match message:
            case Hello() | Ready() | NotReady():
                self._rendezvous.on_message(message)
                self._tell_if_ready(now_s)
            case CellOutput() | CellResult() | Attend() | LeaveMeeting():
                self._on_cell(message, buffers, now_s)
            case ObjectsStored() | ObjectFetched():
                self._roster.end_work(message.rank)
                if self._fence.transfer is not None:
                    self._fence.transfer.on_answer(message, buffers)
            case PutValue() | AwaitValue():
                self._values.on_message(message, buffers)
            case WantService():
                self._services.on_want(message)
            case Answered():
                self._questions.on_answered(message)
            case ControllerJoined() | ControllerLeft() | TaskBegan() | TaskEnded():
                self._parallel.on_engine(message, now_s)
            case NoticesWanted() | NoticePosition() | NoticeHandled():
                self._preemption.on_engine(message, now_s)
            case _:
                assert_never(message)
        self._audience.on_progress(now_s)

    def _on_cell(self, message: FromCell, buffers: list[Frame], now_s: float) -> None:
        if isinstance(message, CellOutput | CellResult):
            self._roster[message.rank].offsets = message.offsets
        if isinstance(message, CellResult):
            self._roster.end_work(message.rank)
        cell = self._fence.cell
        if cell is not None and cell.cell_id == message.cell_id:
            cell.on_message(message, buffers, now_s)
        elif isinstance(message, Attend | LeaveMeeting):
            self._standing.on_message(message, buffers, now_s)

    # --- start and stop ---

    def _watch_start(self, now_s: float, deadline_s: float) -> None:
        missing = [host.name for host in self._roster.missing_hosts]
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
            self._audience.tell_ready(now_s)

    def fail_start(self, problem: str) -> None:
        """Give up starting; clients are told why, with what agents and zygotes have said last."""
        log, problem = self._arrivals.log_tail(), self._hosts.problem or problem
        self._refuse_start(f"{problem}. The agents said last:\n{log}" if log else problem)

    def _refuse_start(self, problem: str) -> None:
        if not self._audience.has_been_ready and not self.start_problem:
            self.start_problem = problem
            self._audience.tell_start_failed(problem)

    def leave(self) -> set[str]:
        """Let every engine and agent end, and wait for their word, at most a few seconds.

        Gives the hosts whose agent has not confirmed: it never came, is stuck, or was lost.
        """
        self._parallel.close()
        dismiss_engines(self._roster, self._outbox)
        self._audience.say_farewell(self.describe)
        return dismiss_agents(self._roster, self._agents, self._hosts)

    @property
    def world_size(self) -> int:
        """Number of ranks; 0 while it is not known."""
        return self._roster.world_size

    @property
    def host_specs(self) -> tuple[HostSpec, ...]:
        """Hosts as they are, with the names and slots that they have told."""
        return tuple(host.spec for host in self._roster.hosts.values())

    @property
    def stop_request(self) -> tuple[bytes, str] | None:
        """Client and request that asked for the end, to be answered last of all."""
        return self._requests.stop_request

    def describe(self, state: str = "") -> Topology:
        """Describe everything at this moment."""
        now_s = monotonic()
        ages = {
            rank: now_s - self._beats.last_beat_s(self._roster[rank].identity)
            for rank in self._roster.present_ranks()
        }
        verdict = self._fence.judge()
        if not verdict.text:
            verdict = Verdict("", self._recovery.note or self._preemption.note)
        state = state or ("ready" if self._audience.has_been_ready else "starting")
        return self._picture.draw(state, self._rendezvous.generation, verdict, ages, now_s)
