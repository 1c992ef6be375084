"""What clients ask for: each request goes to the part that can answer it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.cells.cell_run import CellParts, CellRun
from jupyter_dist.coordinator.cells.payload import Payload
from jupyter_dist.coordinator.cells.pull import Pull
from jupyter_dist.coordinator.cells.push import Push
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.cells.transfers import Transfer
from jupyter_dist.coordinator.cells.uploads import Uploads
from jupyter_dist.coordinator.clients.assistants import Assistants
from jupyter_dist.coordinator.clients.axes_naming import AxesNaming
from jupyter_dist.coordinator.clients.client_registry import ClientRegistry
from jupyter_dist.coordinator.clients.client_roles import ClientRoles
from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.coordinator.clients.pictures import Pictures
from jupyter_dist.coordinator.clients.widget_relay import TAKEN_OVER, WidgetRelay
from jupyter_dist.coordinator.debugging.client_relay import DebuggerRelay
from jupyter_dist.coordinator.ipyparallel.controller import IpyparallelController
from jupyter_dist.coordinator.observation.call_records import CallRecords
from jupyter_dist.coordinator.preemption.preemption import Preemption
from jupyter_dist.coordinator.recovery.losses import Losses
from jupyter_dist.coordinator.recovery.recovery import Recovery
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import EngineRecord
from jupyter_dist.coordinator.state.sender import Handlers
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AnnounceEnd,
    AnswerInput,
    AskInput,
    AskRanks,
    AwaitReady,
    CellInterruptSent,
    ClaimRole,
    CloseDap,
    CommHandled,
    CommitCode,
    CommSent,
    CommsSeen,
    DapLeft,
    DapSaid,
    Explain,
    Explained,
    FileUnreachable,
    FollowCell,
    FollowComms,
    FromClient,
    FromSession,
    HealRanks,
    InputShown,
    InterruptCell,
    LeftDebugger,
    ListCells,
    NoteAuto,
    OpenDap,
    OutputSeen,
    PullObject,
    PushObjects,
    ReadCollectives,
    ReplayOutput,
    SendCode,
    SendComm,
    SendPiece,
    SettleComms,
    ShrinkCluster,
    StopCluster,
    StoppedInDebugger,
    StopRanks,
    SubmitCell,
    SyncCode,
    TellDap,
    WithdrawCell,
    WithdrawInput,
)
from jupyter_dist.protocol.unreadable import Unreadable


@dataclass(frozen=True)
class Parts:
    """Everyone whom a request may concern."""

    cell: CellParts
    scheduler: CellScheduler
    client_registry: ClientRegistry
    code_sync: CodeSync
    recording: CallRecords
    losses: Losses
    recovery: Recovery
    parallel: IpyparallelController
    pictures: Pictures
    widgets: WidgetRelay
    preemption: Preemption


class Requests:
    """Handles the messages of clients, by their type."""

    def __init__(self, parts: Parts) -> None:
        self._roster, self._sender, self._log = parts.cell.roster, parts.cell.sender, parts.cell.log
        self._parts, self._scheduler = parts, parts.scheduler
        self._roles = ClientRoles(self._roster.cluster, self._sender)
        self._uploads = Uploads(self._sender)
        self.debuggers = DebuggerRelay(self._roster, self._sender)
        self._assistants = Assistants(self._roster, self._sender)
        axes = AxesNaming(self._roster, parts.cell.rendezvous, self._sender)
        self._cells_begun = self._transfers_begun = 0
        self.stop_request: tuple[bytes, str] | None = None
        """Client and request that asked for the end; answered last of all."""
        self._handlers: Handlers = {
            AwaitReady: self._await_ready,
            ClaimRole: self._take_part,
            NoteAuto: self._roles.note_auto,
            **self._assistants.handlers(),
            StopCluster: self._stop,
            AnnounceEnd: parts.preemption.on_request,
            **dict.fromkeys((HealRanks, ShrinkCluster), parts.recovery.on_request),
            **parts.parallel.handlers(),
            **axes.handlers(),
            **parts.pictures.handlers(),
            ReadCollectives: parts.recording.on_request,
            AskRanks: parts.cell.questions.on_request,
            ListCells: self._list_cells,
            ReplayOutput: self._replay_output,
            FollowCell: self._follow_cell,
            Explain: self._explain,
            SubmitCell: self._submit_cell,
            PullObject: self._pull,
            OutputSeen: self._acknowledge,
            **dict.fromkeys((InputShown, AnswerInput), self._take_input),
            WithdrawCell: self._withdraw,
            InterruptCell: self._interrupt,
            StopRanks: parts.cell.held.on_request,
            **dict.fromkeys((FollowComms, CommsSeen, SettleComms), parts.widgets.on_request),
            **dict.fromkeys((OpenDap, TellDap, CloseDap), self.debuggers.on_request),
        }
        """By the type of the message; `_framed` has those that frames may follow."""
        self._framed: dict[type[Any], Callable[[bytes, Any, list[Frame], float], None]] = {
            **dict.fromkeys((SyncCode, SendCode, CommitCode), parts.code_sync.on_request),
            PushObjects: self._push,
            SendPiece: self._take_piece,
            SendComm: parts.widgets.send,
        }

    def tick(self, now_s: float) -> None:
        """Let go of what clients have left half done."""
        self._uploads.forget_silent(now_s)
        if self.debuggers.sessions:
            self.debuggers.tick(now_s)

    def on_rank(
        self, engine: EngineRecord, message: FromSession, buffers: list[Frame], now_s: float
    ) -> None:
        """Take in what a rank has to say to a person, by widgets, questions and debuggers."""
        match message:
            case CommSent() | CommHandled():
                self._parts.widgets.on_engine(engine, message, buffers)
            case AskInput() | WithdrawInput():
                self._scheduler.on_question(message)
            case StoppedInDebugger() | LeftDebugger():
                self._parts.cell.held.on_engine(engine, message, now_s)
            case DapSaid() | DapLeft():
                self.debuggers.on_engine(engine, message)
            case _:
                assert_never(message)

    def on_request(self, received: Received, now_s: float) -> None:
        """Take in one message of a client, or tell it why it could not be read."""
        client, message, buffers = received.identity, received.message, received.buffers
        self._parts.client_registry.hear(client, now_s)
        self._parts.pictures.hear(client, now_s)
        self._roles.hear(client, now_s)
        self._parts.parallel.hear(client, now_s)
        if self.debuggers.sessions:
            self.debuggers.hear(client, now_s)
        if (problem := received.problem) is not None:
            request_id = problem.request_id if isinstance(problem, Unreadable) else ""
            self._sender.refuse(client, request_id, problem.code, str(problem))
        elif mistake := self._find_mistake(message, len(buffers)):
            self._sender.refuse(client, message.request_id, ErrorCode.USAGE_ERROR, mistake)
        elif self._assistants.members and (
            objection := self._assistants.find_objection(client, message)
        ):
            self._sender.refuse(client, message.request_id, ErrorCode.NOT_ALLOWED, objection)
        elif objection := self._roles.find_objection(client, message, now_s):
            self._sender.refuse(client, message.request_id, ErrorCode.CLUSTER_IN_USE, objection)
        elif (handle := self._handlers.get(type(message))) is not None:
            handle(client, message, now_s)
        else:
            self._framed[type(message)](client, message, buffers, now_s)

    def _find_mistake(self, message: FromClient, buffer_count: int) -> str:
        """Return why a request cannot be meant; our own clients check before they send."""
        ranks = getattr(message, "ranks", None)
        if ranks is not None:
            known = set(range(self._roster.world_size))
            if not ranks or len(set(ranks)) < len(ranks) or not set(ranks) <= known:
                return f"ranks {ranks}: this cluster has ranks 0-{len(known) - 1}, each once."
        if isinstance(message, PushObjects):
            counts = message.frame_counts
            if len(counts) != len(message.names) or min(counts, default=1) < 1:
                return f"frame counts {counts} do not fit the names {message.names}."
            came = len(message.sizes) or buffer_count
            if sum(counts) != came or (message.sizes and buffer_count):
                return f"{sum(counts)} frames were announced, {came} came."
            if message.sizes and (min(message.sizes) < 0 or not any(message.sizes)):
                return f"frames of {message.sizes} bytes cannot come in pieces."
            if message.file and not message.sizes:
                return "the sizes of the frames in the file are missing."
        if isinstance(message, SendPiece) and buffer_count != 1:
            return f"1 frame was expected, {buffer_count} came."
        return ""

    # --- the start, the end, and what shows the cluster ---

    def _await_ready(self, client: bytes, message: AwaitReady, _now_s: float) -> None:
        self._parts.client_registry.await_ready(client, message.request_id)

    def _take_part(self, client: bytes, message: ClaimRole, now_s: float) -> None:
        self._roles.take_part(client, message, now_s)
        if message.keeps_cluster:
            self._parts.client_registry.keep()
        widgets = self._parts.widgets
        if widgets.follower and not self._roles.is_owners(widgets.follower):
            widgets.let_go(TAKEN_OVER)

    def _stop(self, client: bytes, message: StopCluster, _now_s: float) -> None:
        self.stop_request = (client, message.request_id)
        self.debuggers.close_all()

    def _list_cells(self, client: bytes, message: ListCells, _now_s: float) -> None:
        self._log_news()
        self._sender.to_client(client, self._log.list_cells(message.request_id))

    def _replay_output(self, client: bytes, message: ReplayOutput, _now_s: float) -> None:
        self._log_news()
        found = self._log.replay(message.request_id, message.label, message.since)
        self._sender.to_client(client, found)

    def _follow_cell(self, client: bytes, message: FollowCell, _now_s: float) -> None:
        self._log.follow(client, message.request_id, self._sender)
        if message.can_answer and self._scheduler.cell is not None:
            self._scheduler.cell.input.join(client)

    def _log_news(self) -> None:
        """Have the log tell what the running cell has said by now."""
        if self._scheduler.cell is not None:
            self._scheduler.cell.flush()

    def _explain(self, client: bytes, message: Explain, _now_s: float) -> None:
        crashes = tuple(crash for _rank, crash in sorted(self._parts.losses.crashes.items()))
        idle = (
            self._scheduler.describe_unresponsive()
            or self._parts.losses.describe_suspects()
            or self._parts.recovery.note
        )
        running = self._scheduler.cell or self._scheduler.transfer
        label, verdict = (running.label, running.note) if running is not None else ("", idle)
        self._sender.to_client(client, Explained(message.request_id, label, verdict, crashes))

    @property
    def has_living_owner(self) -> bool:
        """The owner's process lives, though it may be silent."""
        return self._roles.has_living_owner

    # --- cells and transfers ---

    def _submit_cell(self, client: bytes, message: SubmitCell, now_s: float) -> None:
        self._cells_begun += 1
        cell = CellRun(client, message, f"cell-{self._cells_begun}", self._parts.cell)
        if self._assistants.members:
            self._assistants.introduce(client, cell)
        self._scheduler.submit(cell, now_s)

    def _pull(self, client: bytes, message: PullObject, now_s: float) -> None:
        self._scheduler.submit(
            Pull(client, message, self._new_transfer_id(), self._parts.cell), now_s
        )

    def _push(
        self, client: bytes, message: PushObjects, buffers: list[Frame], now_s: float
    ) -> None:
        """Queue a push; one that comes in pieces when it is whole."""
        if message.file:
            try:
                file = MemoryFile.open(message.file)
                file.check(message.sizes)
            except (OSError, ValueError):
                self._sender.to_client(client, FileUnreachable(message.request_id))
                return
            self._submit_push(client, message, Payload((), message.sizes, file), now_s)
        elif message.sizes:
            self._uploads.begin(client, message, now_s)
        else:
            self._submit_push(client, message, Payload(buffers), now_s)

    def _take_piece(
        self, client: bytes, message: SendPiece, buffers: list[Frame], now_s: float
    ) -> None:
        whole = self._uploads.take(client, message, buffers[0], now_s)
        if whole is not None:
            self._submit_push(client, *whole, now_s)

    def _submit_push(
        self, client: bytes, request: PushObjects, payload: Payload, now_s: float
    ) -> None:
        push = Push(client, request, payload, self._new_transfer_id(), self._parts.cell)
        self._scheduler.submit(push, now_s)

    def _new_transfer_id(self) -> str:
        self._transfers_begun += 1
        return f"transfer-{self._transfers_begun}"

    def _acknowledge(self, client: bytes, message: OutputSeen, _now_s: float) -> None:
        if (cell := self._scheduler.find_cell(message.cell_id)) is not None:
            cell.acknowledge(client, message.seen_bytes)
        self._log.acknowledge(client, message.cell_id, message.seen_bytes)

    def _take_input(self, client: bytes, message: InputShown | AnswerInput, now_s: float) -> None:
        cell = self._scheduler.find_cell(message.cell_id)
        if cell is None:
            return
        if isinstance(message, InputShown):
            cell.input.on_shown(client, message, now_s)
        else:
            cell.input.on_answer(client, message)

    def _withdraw(self, client: bytes, message: WithdrawCell, now_s: float) -> None:
        request_id, current = message.request_id, self._scheduler.current
        if self._uploads.forget(client, request_id):
            reason = "interrupted while it was sent; no rank has got it."
            self._sender.refuse(client, request_id, ErrorCode.CELL_REFUSED, reason)
            return
        if self._scheduler.withdraw(client, request_id):
            return
        if not isinstance(current, CellRun | Transfer):
            return
        if (current.client, current.request_id) == (client, request_id):
            current.interrupt(set(current.ranks), request_id, now_s)

    def _interrupt(self, client: bytes, message: InterruptCell, now_s: float) -> None:
        wanted = set(message.ranks or range(self._roster.world_size))
        current = self._scheduler.cell or self._scheduler.current
        targets: tuple[int, ...] = ()
        if isinstance(current, CellRun | Transfer):
            targets = current.interrupt(wanted, message.request_id, now_s)
        else:  # ranks may still be busy with a cell that ran into its limit, or with a task
            busy = {*self._roster.ranks_in(EngineState.BUSY), *self._roster.ranks_in_tasks}
            targets = tuple(sorted(wanted & busy))
            self._sender.send_signal(targets, signal.SIGINT, message.request_id)
        self._sender.to_client(client, CellInterruptSent(message.request_id, targets))
