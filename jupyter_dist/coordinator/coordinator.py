"""The coordinator's one loop: everything that happens lands here and is handed to its part."""

import signal
from collections.abc import Callable, Sequence
from time import monotonic
from typing import assert_never

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.poller import Poller
from jupyter_dist.control.router import Received, Router
from jupyter_dist.coordinator.agents import AgentService
from jupyter_dist.coordinator.audience import Audience
from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.exits import describe_exit, last_words
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.output_log import OutputLog
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.coordinator.transfers import Transfer
from jupyter_dist.model.engine_state import EngineEvent, EngineState
from jupyter_dist.model.health import Verdict, assess
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.model.spec import ClusterSpec
from jupyter_dist.model.topology import Topology
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AwaitReady,
    CellInterruptSent,
    CellOutput,
    CellResult,
    FromClient,
    Hello,
    InterruptCell,
    Leave,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    OutputSeen,
    PullObject,
    PushObjects,
    RankOutput,
    Ready,
    Refused,
    ReplayOutput,
    StopCluster,
    SubmitCell,
    ToClient,
    ToCoordinator,
    ToEngine,
    WatchTopology,
    WithdrawCell,
)

LOSS_GRACE_S = 0.1
"""An exit is told by the agent; what the engine sent just before may still be on its way."""
TICK_S = 0.1
LEAVE_GRACE_S = 1.5


class Coordinator:
    """Owns the sockets and the clock; the parts decide."""

    def __init__(
        self,
        spec: ClusterSpec,
        engines: Router[ToCoordinator],
        clients: Router[FromClient],
        beats: HeartbeatMonitor,
        agents: AgentService,
        read_log: Callable[[], str],
    ) -> None:
        self._spec = spec
        self._read_log = read_log
        self._engines, self._clients, self._beats, self._agents = engines, clients, beats, agents
        self._roster = Roster(spec)
        kind = "ring" if spec.communicator == "auto" else spec.communicator
        self._rendezvous = Rendezvous(self._roster, kind, self)
        self._fence = Fence(self._roster, self._rendezvous, self)
        self._log = OutputLog()
        self._audience = Audience(self._roster, self._rendezvous, self, spec.keep_s)
        self._cells_begun = 0
        self._losses_due: list[tuple[float, Callable[[], None]]] = []
        self._next_beat_s = 0.0
        self._stop_client: tuple[bytes, str] | None = None
        self._stopped_hosts: set[str] = set()
        self.start_problem = ""
        """Why the cluster cannot become ready, or empty."""
        self.is_stopping = False

    # --- the loop ---

    def serve(self, on_tick: Callable[[float], None]) -> None:
        """Run until the cluster is stopped, is not wanted any more, or cannot start."""
        poller = Poller()
        for source in (self._engines, self._clients, self._beats, self._agents.waker):
            poller.add(source)
        deadline_s = monotonic() + self._spec.timeout_s
        next_tick_s = 0.0
        while not self.is_stopping:
            poller.wait(TICK_S)
            now_s = monotonic()
            self._take_everything(now_s)
            if now_s >= next_tick_s:
                next_tick_s = now_s + TICK_S / 2
                self._tick(now_s, deadline_s)
                on_tick(now_s)
            self._fence.advance(now_s)

    def _take_everything(self, now_s: float) -> None:
        for received in self._engines.receive():
            if received.problem is None and _is_from_itself(received):
                self._on_engine(received.message, received.buffers, now_s)
        for host, event in self._agents.receive():
            self._on_agent(host, event, now_s)
        for received in self._clients.receive():
            self._on_client(received, now_s)
        self._beats.receive()

    def _tick(self, now_s: float, start_deadline_s: float) -> None:
        for due in [due for due in self._losses_due if due[0] <= now_s]:
            self._losses_due.remove(due)
            due[1]()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + self._spec.health.interval_s
            self._beats.ask(_identity(rank) for rank in self._roster.present_ranks())
        self._judge_health(now_s)
        self._audience.tick(self._fence.current is not None, self._describe, now_s)
        if not self._audience.has_been_ready and not self.start_problem:
            self._watch_start(now_s, start_deadline_s)
        if self._audience.is_gone(now_s) or (self.start_problem and self._audience.heard_refusal):
            self.is_stopping = True

    # --- engines ---

    def _on_engine(self, message: ToCoordinator, buffers: list[Frame], now_s: float) -> None:
        current = self._fence.current
        match message:
            case Hello():
                self._rendezvous.on_hello(message)
            case Ready():
                self._rendezvous.on_ready(message)
            case NotReady():
                self._rendezvous.on_not_ready(message)
            case CellOutput():
                self._roster[message.rank].offsets = message.offsets
                if isinstance(current, CellRun) and current.cell_id == message.cell_id:
                    current.on_output(message)
            case CellResult():
                self._roster[message.rank].offsets = message.offsets
                self._roster.end_work(message.rank)
                if isinstance(current, CellRun) and current.cell_id == message.cell_id:
                    current.on_result(message)
            case ObjectsStored() | ObjectFetched():
                self._roster.end_work(message.rank)
                if isinstance(current, Transfer):
                    current.on_answer(message, buffers)
            case _:
                assert_never(message)
        self._audience.on_progress(now_s)

    def _judge_health(self, now_s: float) -> None:
        for rank in self._roster.present_ranks():
            engine = self._roster[rank]
            if engine.state is EngineState.STARTING and not engine.pid:
                continue
            last_beat_s = self._beats.last_beat_s(_identity(rank))
            verdict, reason = assess(now_s, last_beat_s, self._spec.health)
            engine.is_suspect = verdict is Verdict.SUSPECT
            engine.reason = reason if engine.is_suspect else ""
            if verdict is Verdict.LOST:
                self._lose(rank, reason)

    def _lose(self, rank: int, reason: str, last_words: RankOutput | None = None) -> None:
        if isinstance(self._fence.current, CellRun) and last_words is not None:
            self._fence.current.on_last_words(rank, last_words)
        if not self._roster.lose(rank, reason):
            return
        self._rendezvous.on_lost(rank)
        if not self._audience.has_been_ready:
            self.fail_start(f"rank {rank} ended while starting: {reason}")
        if self._fence.current is not None:
            self._fence.current.on_lost(rank, reason)

    # --- agents ---

    def _on_agent(self, host: str, event: pb.AgentEvent | None, now_s: float) -> None:
        record = self._roster.hosts[host]
        match event.WhichOneof("event") if event is not None else "stream_broke":
            case "stream_broke":
                self._on_agent_gone(host)
            case "joined":
                assert event is not None
                record.joined, record.is_lost = event.joined, False
                self._start_engines(host)
            case "engine_started":
                assert event is not None
                self._roster[event.engine_started.rank].pid = event.engine_started.pid
            case "engine_exited":
                assert event is not None
                exited = event.engine_exited
                loss = (now_s + LOSS_GRACE_S, lambda: self._on_exit(exited))
                self._losses_due.append(loss)
            case "signal_sent":
                assert event is not None
                self._fence.signals_under_way.discard(f"{event.signal_sent.request_id}@{host}")
            case "telemetry":
                assert event is not None
                self._roster.take_telemetry(host, event.telemetry)
            case "start_problem":
                assert event is not None
                self.fail_start(f"{host}: {event.start_problem.reason}")
            case "all_stopped":
                self._stopped_hosts.add(host)

    def _start_engines(self, host: str) -> None:
        places = [
            pb.RankPlace(
                rank=info.rank,
                world_size=info.world_size,
                local_rank=info.local_rank,
                local_world_size=info.local_world_size,
                host_rank=info.host_rank,
                host=info.host,
            )
            for info in (engine.info for engine in self._roster.on_host(host))
        ]
        command = pb.StartEngines(places=places, generation=self._rendezvous.generation)
        self._agents.send(host, pb.AgentCommand(start_engines=command))

    def _on_exit(self, exited: pb.EngineExited) -> None:
        engine = self._roster[exited.rank]
        reason = describe_exit(exited.exit_code, exited.signal)
        self._lose(exited.rank, reason, last_words(exited, engine))

    def _on_agent_gone(self, host: str) -> None:
        """Lose a whole host: its engines end with their agent."""
        record = self._roster.hosts[host]
        if record.is_lost or self.is_stopping:
            return
        record.is_lost = True
        for engine in self._roster.on_host(host):
            self._lose(engine.info.rank, f"the agent of host {host} is gone")

    # --- clients ---

    def _on_client(self, received: Received, now_s: float) -> None:
        client = received.identity
        self._audience.hear(client, now_s)
        if received.problem is not None:
            kind = type(received.problem).__name__
            self.to_client(client, Refused("", kind, str(received.problem)))
            return
        message: FromClient = received.message
        match message:
            case AwaitReady():
                self._audience.await_ready(client, message.request_id)
            case SubmitCell():
                self._submit_cell(client, message, now_s)
            case PushObjects() | PullObject():
                transfer = Transfer(client, message, received.buffers, self._roster, self)
                self._fence.submit(transfer, now_s)
            case OutputSeen():
                self._acknowledge(message)
            case WithdrawCell():
                self._withdraw(client, message, now_s)
            case InterruptCell():
                self._interrupt(client, message, now_s)
            case WatchTopology():
                self._audience.watch(client, message, self._describe, now_s)
            case ReplayOutput():
                is_running = isinstance(self._fence.current, CellRun)
                self.to_client(client, self._log.replay(message.request_id, is_running))
            case StopCluster():
                self._stop_client = (client, message.request_id)
                self.is_stopping = True
            case _:
                assert_never(message)

    def _submit_cell(self, client: bytes, request: SubmitCell, now_s: float) -> None:
        self._cells_begun += 1
        cell_id = f"cell-{self._cells_begun}"
        cell = CellRun(client, request, cell_id, self._roster, self._rendezvous, self, self._log)
        self._fence.submit(cell, now_s)

    def _acknowledge(self, message: OutputSeen) -> None:
        current = self._fence.current
        if isinstance(current, CellRun) and current.cell_id == message.cell_id:
            current.flow.acknowledge(message.seen_bytes)

    def _withdraw(self, client: bytes, message: WithdrawCell, now_s: float) -> None:
        current = self._fence.current
        if self._fence.withdraw(client, message.request_id) or not isinstance(current, CellRun):
            return
        if (current.client, current.request_id) == (client, message.request_id):
            current.interrupt(set(current.ranks), message.request_id, now_s)

    def _interrupt(self, client: bytes, message: InterruptCell, now_s: float) -> None:
        wanted = set(message.ranks or range(self._roster.world_size))
        current = self._fence.current
        targets: tuple[int, ...] = ()
        if isinstance(current, CellRun):
            targets = current.interrupt(wanted, message.request_id, now_s)
        else:  # ranks may still be busy with a cell that ran into its limit
            targets = tuple(sorted(wanted & set(self._roster.ranks_in(EngineState.BUSY))))
            self.send_signal(targets, signal.SIGINT, message.request_id)
        self.to_client(client, CellInterruptSent(message.request_id, targets))

    # --- the outbox of all parts ---

    def to_engine(self, rank: int, message: ToEngine, buffers: Sequence[Frame] = ()) -> None:
        """Send to one engine."""
        self._engines.send(_identity(rank), message, buffers)

    def to_client(self, client: bytes, message: ToClient, buffers: Sequence[Frame] = ()) -> None:
        """Send to one client."""
        self._clients.send(client, message, buffers)

    def send_signal(self, ranks: Sequence[int], signal_number: int, request_id: str) -> None:
        """Have these ranks' processes signalled by their agents."""
        for host, members in self._roster.group_by_host(ranks).items():
            command = pb.SendSignal(request_id=request_id, ranks=members, signal=signal_number)
            if self._agents.send(host, pb.AgentCommand(send_signal=command)):
                self._fence.signals_under_way.add(f"{request_id}@{host}")

    # --- start and stop ---

    def _watch_start(self, now_s: float, deadline_s: float) -> None:
        if self._rendezvous.problem:
            self.fail_start(self._rendezvous.problem)
        elif self._rendezvous.is_complete:
            self._audience.tell_ready()
        elif now_s > deadline_s:
            missing = self._rendezvous.missing_ranks
            silent = [host.name for host in self._roster.hosts.values() if host.joined is None]
            self.fail_start(
                f"{name_ranks(missing)} not ready within {self._spec.timeout_s:g} s"
                + (f"; no agent came from {', '.join(silent)}" if silent else "")
            )

    def fail_start(self, problem: str) -> None:
        """Give up starting; clients are told why, with what the engines' parent left in the log."""
        if not self._audience.has_been_ready and not self.start_problem:
            log = self._read_log()
            self.start_problem = f"{problem}. Its log ends with:\n{log}" if log else problem
            self._audience.tell_start_failed(self.start_problem)

    def leave(self) -> None:
        """Let every engine and agent end, and wait for their word, at most a few seconds."""
        for rank in self._roster.present_ranks():
            self.to_engine(rank, Leave())
            self._roster[rank].apply(EngineEvent.TOLD_TO_LEAVE)
        self._audience.say_farewell(self._describe)
        hosts = {name for name, host in self._roster.hosts.items() if host.joined}
        waiting = {
            host
            for host in hosts
            if self._agents.send(host, pb.AgentCommand(stop=pb.Stop(grace_s=LEAVE_GRACE_S)))
        }
        poller = Poller()
        poller.add(self._agents.waker)
        deadline_s = monotonic() + LEAVE_GRACE_S + 8.0
        while waiting - self._stopped_hosts and monotonic() < deadline_s:
            poller.wait(TICK_S)
            for host, event in self._agents.receive():
                if event is None or event.WhichOneof("event") == "all_stopped":
                    self._stopped_hosts.add(host)

    @property
    def stop_request(self) -> tuple[bytes, str] | None:
        """Client and request that asked for the end, to be answered last of all."""
        return self._stop_client

    def _describe(self, state: str = "") -> Topology:
        now_s = monotonic()
        ages = {
            rank: now_s - self._beats.last_beat_s(_identity(rank))
            for rank in self._roster.present_ranks()
        }
        current = self._fence.current
        note = current.note if isinstance(current, CellRun) else ""
        state = state or ("ready" if self._audience.has_been_ready else "starting")
        return self._roster.topology(state, self._rendezvous.generation, note, ages, now_s)


def _identity(rank: int) -> bytes:
    return str(rank).encode()


def _is_from_itself(received: Received) -> bool:
    """Tell whether a message speaks for the engine that sent it."""
    return received.identity == _identity(received.message.rank)
