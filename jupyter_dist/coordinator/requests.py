"""What clients ask for: each request goes to the part that can answer it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

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
from jupyter_dist.errors import ErrorCode, MalformedMessage, VersionMismatch
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
    Refused,
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

Message = TypeVar("Message")


class Asked(NamedTuple, Generic[Message]):
    """A message of a client, and what handling it may take."""

    client: bytes
    message: Message
    buffers: list[Frame]
    describe: Describe
    now_s: float


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
        self._handlers: dict[type[Any], Callable[[Asked[Any]], None]] = {
            AwaitReady: self._await_ready,
            ClaimRole: self._claim_role,
            StopCluster: self._stop,
            HealRanks: self._recover,
            ShrinkCluster: self._recover,
            StartController: self._control_ipyparallel,
            EndController: self._control_ipyparallel,
            SyncCode: self._sync_code,
            SendCode: self._sync_code,
            CommitCode: self._sync_code,
            WatchTopology: self._watch_topology,
            ReadCollectives: self._read_collectives,
            AskRanks: self._ask_ranks,
            ListCells: self._list_cells,
            ReplayOutput: self._replay_output,
            FollowCell: self._follow_cell,
            Explain: self._explain,
            SubmitCell: self._submit_cell,
            PushObjects: self._transfer,
            SendPiece: self._take_piece,
            PullObject: self._transfer,
            OutputSeen: self._acknowledge,
            WithdrawCell: self._withdraw,
            InterruptCell: self._interrupt,
        }

    def tick(self, now_s: float) -> None:
        """Let go of what clients have left half done."""
        self._uploads.forget_silent(now_s)

    def on_request(self, received: Received, describe: Describe, now_s: float) -> None:
        """Take in one message of a client, or tell it why it could not be read."""
        client = received.identity
        self._parts.client_registry.hear(client, now_s)
        self._roles.hear(client, now_s)
        self._parts.parallel.hear(client, now_s)
        if received.problem is not None:
            self._sender.to_client(client, _refuse(received.problem))
            return
        problem = self._find_mistake(received.message, len(received.buffers))
        if problem:
            self._sender.refuse(client, received.message.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        objection = self._roles.find_objection(client, received.message, now_s)
        if objection:
            self._sender.refuse(
                client, received.message.request_id, ErrorCode.CLUSTER_IN_USE, objection
            )
            return
        asked = Asked(client, received.message, received.buffers, describe, now_s)
        self._handlers[type(received.message)](asked)

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

    # --- ready, roles, end ---

    def _await_ready(self, asked: Asked[AwaitReady]) -> None:
        self._parts.client_registry.await_ready(asked.client, asked.message.request_id)

    def _claim_role(self, asked: Asked[ClaimRole]) -> None:
        self._roles.take_part(asked.client, asked.message, asked.now_s)

    def _stop(self, asked: Asked[StopCluster]) -> None:
        self.stop_request = (asked.client, asked.message.request_id)

    # --- what changes the cluster ---

    def _recover(self, asked: Asked[HealRanks | ShrinkCluster]) -> None:
        self._parts.recovery.on_request(asked.client, asked.message, asked.now_s)

    def _control_ipyparallel(self, asked: Asked[StartController | EndController]) -> None:
        self._parts.parallel.on_request(asked.client, asked.message, asked.now_s)

    def _sync_code(self, asked: Asked[SyncCode | SendCode | CommitCode]) -> None:
        self._parts.code_sync.on_request(asked.client, asked.message, asked.buffers)

    # --- what shows it ---

    def _watch_topology(self, asked: Asked[WatchTopology]) -> None:
        self._parts.client_registry.watch(asked.client, asked.message, asked.describe, asked.now_s)

    def _read_collectives(self, asked: Asked[ReadCollectives]) -> None:
        self._parts.recording.on_request(asked.client, asked.message, asked.now_s)

    def _ask_ranks(self, asked: Asked[AskRanks]) -> None:
        self._parts.cell.questions.on_request(asked.client, asked.message, asked.now_s)

    def _list_cells(self, asked: Asked[ListCells]) -> None:
        self._sender.to_client(asked.client, self._log.list_cells(asked.message.request_id))

    def _replay_output(self, asked: Asked[ReplayOutput]) -> None:
        replayed = self._log.replay(asked.message.request_id, asked.message.label)
        self._sender.to_client(asked.client, replayed)

    def _follow_cell(self, asked: Asked[FollowCell]) -> None:
        self._log.follow(asked.client, asked.message.request_id, self._sender)

    def _explain(self, asked: Asked[Explain]) -> None:
        cell = self._scheduler.cell
        crashes = tuple(crash for _rank, crash in sorted(self._parts.losses.crashes.items()))
        idle = (
            self._scheduler.describe_unresponsive()
            or self._parts.losses.describe_suspects()
            or self._parts.recovery.note
        )
        running = cell or self._scheduler.transfer
        label, verdict = (running.label, running.note) if running is not None else ("", idle)
        explained = Explained(asked.message.request_id, label, verdict, crashes)
        self._sender.to_client(asked.client, explained)

    # --- cells and transfers ---

    def _submit_cell(self, asked: Asked[SubmitCell]) -> None:
        self._cells_begun += 1
        cell_id = f"cell-{self._cells_begun}"
        cell = CellRun(asked.client, asked.message, cell_id, self._parts.cell)
        self._scheduler.submit(cell, asked.now_s)

    def _transfer(self, asked: Asked[PushObjects | PullObject]) -> None:
        """Queue a transfer; a push that comes in pieces when it is whole."""
        if isinstance(asked.message, PushObjects) and asked.message.sizes:
            self._uploads.begin(asked.client, asked.message, asked.now_s)
            return
        self._submit_transfer(asked.client, asked.message, asked.buffers, asked.now_s)

    def _take_piece(self, asked: Asked[SendPiece]) -> None:
        whole = self._uploads.take(asked.client, asked.message, asked.buffers[0], asked.now_s)
        if whole is not None:
            self._submit_transfer(asked.client, *whole, asked.now_s)

    def _submit_transfer(
        self, client: bytes, request: PushObjects | PullObject, buffers: list[Frame], now_s: float
    ) -> None:
        self._transfers_begun += 1
        transfer_id = f"transfer-{self._transfers_begun}"
        transfer = Transfer(client, request, buffers, transfer_id, self._parts.cell)
        self._scheduler.submit(transfer, now_s)

    def _acknowledge(self, asked: Asked[OutputSeen]) -> None:
        client, message = asked.client, asked.message
        current = self._scheduler.cell
        if current is not None and current.cell_id == message.cell_id:
            current.showing.acknowledge(client, message.seen_bytes)
        self._log.acknowledge(client, message.cell_id, message.seen_bytes)

    def _withdraw(self, asked: Asked[WithdrawCell]) -> None:
        client, request_id = asked.client, asked.message.request_id
        current = self._scheduler.current
        if self._uploads.forget(client, request_id):
            reason = "interrupted while it was sent; no rank has got it."
            self._sender.refuse(client, request_id, ErrorCode.CELL_REFUSED, reason)
            return
        if self._scheduler.withdraw(client, request_id):
            return
        if not isinstance(current, CellRun | Transfer):
            return
        if (current.client, current.request_id) == (client, request_id):
            current.interrupt(set(current.ranks), request_id, asked.now_s)

    def _interrupt(self, asked: Asked[InterruptCell]) -> None:
        message = asked.message
        wanted = set(message.ranks or range(self._roster.world_size))
        current = self._scheduler.cell or self._scheduler.current
        targets: tuple[int, ...] = ()
        if isinstance(current, CellRun | Transfer):
            targets = current.interrupt(wanted, message.request_id, asked.now_s)
        else:  # ranks may still be busy with a cell that ran into its limit, or with a task
            busy = {*self._roster.ranks_in(EngineState.BUSY), *self._roster.ranks_in_tasks}
            targets = tuple(sorted(wanted & busy))
            self._sender.send_signal(targets, signal.SIGINT, message.request_id)
        self._sender.to_client(asked.client, CellInterruptSent(message.request_id, targets))


def _refuse(problem: MalformedMessage | VersionMismatch) -> Refused:
    """Answer a request that could not be read, to its client if that is known."""
    if isinstance(problem, Unreadable):
        return Refused(problem.request_id, ErrorCode.MALFORMED_MESSAGE, str(problem))
    return Refused("", problem.code, str(problem))
