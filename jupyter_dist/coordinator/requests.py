"""What clients ask for: each request goes to the part that can answer it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.cells.cell_run import CellParts, CellRun
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.cells.transfers import Transfer
from jupyter_dist.coordinator.cells.uploads import Uploads
from jupyter_dist.coordinator.clients.client_registry import ClientRegistry, Describe
from jupyter_dist.coordinator.clients.client_roles import ClientRoles
from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.coordinator.ipyparallel.controller import IpyparallelController
from jupyter_dist.coordinator.observation.call_records import CallRecords
from jupyter_dist.coordinator.recovery.losses import Losses
from jupyter_dist.coordinator.recovery.recovery import Recovery
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AskRanks,
    AwaitReady,
    CellInterruptSent,
    ClaimRole,
    CommitCode,
    EndController,
    Explain,
    Explained,
    FollowCell,
    FromClient,
    HealRanks,
    InterruptCell,
    ListCells,
    OutputSeen,
    PullObject,
    PushObjects,
    ReadCollectives,
    ReplayOutput,
    SendCode,
    SendPiece,
    ShrinkCluster,
    StartController,
    StopCluster,
    SubmitCell,
    SyncCode,
    WatchTopology,
    WithdrawCell,
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
    describe: Describe


class Requests:
    """Handles the messages of clients, by their type."""

    def __init__(self, parts: Parts) -> None:
        self._roster, self._sender, self._log = parts.cell.roster, parts.cell.sender, parts.cell.log
        self._parts, self._scheduler = parts, parts.scheduler
        self._roles = ClientRoles(self._roster.cluster, self._sender)
        self._uploads = Uploads(self._sender)
        self._cells_begun = self._transfers_begun = 0
        self.stop_request: tuple[bytes, str] | None = None
        """Client and request that asked for the end; answered last of all."""
        self._handlers: dict[type[Any], Callable[[bytes, Any, float], None]] = {
            AwaitReady: self._await_ready,
            ClaimRole: self._roles.take_part,
            StopCluster: self._stop,
            HealRanks: parts.recovery.on_request,
            ShrinkCluster: parts.recovery.on_request,
            StartController: parts.parallel.on_start,
            EndController: parts.parallel.on_end,
            WatchTopology: self._watch_topology,
            ReadCollectives: parts.recording.on_request,
            AskRanks: parts.cell.questions.on_request,
            ListCells: self._list_cells,
            ReplayOutput: self._replay_output,
            FollowCell: self._follow_cell,
            Explain: self._explain,
            SubmitCell: self._submit_cell,
            PullObject: self._pull,
            OutputSeen: self._acknowledge,
            WithdrawCell: self._withdraw,
            InterruptCell: self._interrupt,
        }
        """By the type of the message; `_framed` has those that frames may follow."""
        self._framed: dict[type[Any], Callable[[bytes, Any, list[Frame], float], None]] = {
            SyncCode: parts.code_sync.on_request,
            SendCode: parts.code_sync.on_request,
            CommitCode: parts.code_sync.on_request,
            PushObjects: self._push,
            SendPiece: self._take_piece,
        }

    def tick(self, now_s: float) -> None:
        """Let go of what clients have left half done."""
        self._uploads.forget_silent(now_s)

    def on_request(self, received: Received, now_s: float) -> None:
        """Take in one message of a client, or tell it why it could not be read."""
        client, message, buffers = received.identity, received.message, received.buffers
        self._parts.client_registry.hear(client, now_s)
        self._roles.hear(client, now_s)
        self._parts.parallel.hear(client, now_s)
        if (problem := received.problem) is not None:
            request_id = problem.request_id if isinstance(problem, Unreadable) else ""
            self._sender.refuse(client, request_id, problem.code, str(problem))
        elif mistake := self._find_mistake(message, len(buffers)):
            self._sender.refuse(client, message.request_id, ErrorCode.USAGE_ERROR, mistake)
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
        if isinstance(message, SendPiece) and buffer_count != 1:
            return f"1 frame was expected, {buffer_count} came."
        return ""

    # --- the start, the end, and what shows the cluster ---

    def _await_ready(self, client: bytes, message: AwaitReady, _now_s: float) -> None:
        self._parts.client_registry.await_ready(client, message.request_id)

    def _stop(self, client: bytes, message: StopCluster, _now_s: float) -> None:
        self.stop_request = (client, message.request_id)

    def _watch_topology(self, client: bytes, message: WatchTopology, now_s: float) -> None:
        self._parts.client_registry.watch(client, message, self._parts.describe, now_s)

    def _list_cells(self, client: bytes, message: ListCells, _now_s: float) -> None:
        self._sender.to_client(client, self._log.list_cells(message.request_id))

    def _replay_output(self, client: bytes, message: ReplayOutput, _now_s: float) -> None:
        self._sender.to_client(client, self._log.replay(message.request_id, message.label))

    def _follow_cell(self, client: bytes, message: FollowCell, _now_s: float) -> None:
        self._log.follow(client, message.request_id, self._sender)

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

    # --- cells and transfers ---

    def _submit_cell(self, client: bytes, message: SubmitCell, now_s: float) -> None:
        self._cells_begun += 1
        cell = CellRun(client, message, f"cell-{self._cells_begun}", self._parts.cell)
        self._scheduler.submit(cell, now_s)

    def _pull(self, client: bytes, message: PullObject, now_s: float) -> None:
        self._submit_transfer(client, message, [], now_s)

    def _push(
        self, client: bytes, message: PushObjects, buffers: list[Frame], now_s: float
    ) -> None:
        """Queue a push; one that comes in pieces when it is whole."""
        if message.sizes:
            self._uploads.begin(client, message, now_s)
        else:
            self._submit_transfer(client, message, buffers, now_s)

    def _take_piece(
        self, client: bytes, message: SendPiece, buffers: list[Frame], now_s: float
    ) -> None:
        whole = self._uploads.take(client, message, buffers[0], now_s)
        if whole is not None:
            self._submit_transfer(client, *whole, now_s)

    def _submit_transfer(
        self, client: bytes, request: PushObjects | PullObject, buffers: list[Frame], now_s: float
    ) -> None:
        self._transfers_begun += 1
        transfer_id = f"transfer-{self._transfers_begun}"
        transfer = Transfer(client, request, buffers, transfer_id, self._parts.cell)
        self._scheduler.submit(transfer, now_s)

    def _acknowledge(self, client: bytes, message: OutputSeen, _now_s: float) -> None:
        current = self._scheduler.cell
        if current is not None and current.cell_id == message.cell_id:
            current.acknowledge(client, message.seen_bytes)
        self._log.acknowledge(client, message.cell_id, message.seen_bytes)

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
