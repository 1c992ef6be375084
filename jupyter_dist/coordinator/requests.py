"""What clients ask for: each request goes to the part that can answer it."""

import signal
from dataclasses import dataclass
from typing import assert_never

from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.audience import Audience, Describe
from jupyter_dist.coordinator.cells import CellParts, CellRun
from jupyter_dist.coordinator.fence import Fence, Work
from jupyter_dist.coordinator.losses import Losses
from jupyter_dist.coordinator.parallel import Parallel
from jupyter_dist.coordinator.participation import Participation
from jupyter_dist.coordinator.recording import Recording
from jupyter_dist.coordinator.recovery import Recovery
from jupyter_dist.coordinator.syncing import Syncing
from jupyter_dist.coordinator.transfers import Transfer
from jupyter_dist.coordinator.uploads import Uploads
from jupyter_dist.errors import MalformedMessage, VersionMismatch
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AskRanks,
    AwaitReady,
    CellInterruptSent,
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
    SettleCode,
    ShrinkCluster,
    StartController,
    StopCluster,
    SubmitCell,
    SyncCode,
    TakePart,
    WatchTopology,
    WithdrawCell,
)
from jupyter_dist.protocol.unreadable import Unreadable


@dataclass(frozen=True)
class Parts:
    """Everyone whom a request may concern."""

    cell: CellParts
    fence: Fence
    audience: Audience
    syncing: Syncing
    recording: Recording
    losses: Losses
    recovery: Recovery
    parallel: Parallel


class Requests:
    """The coordinator's desk."""

    def __init__(self, parts: Parts) -> None:
        self._roster, self._outbox, self._log = parts.cell.roster, parts.cell.outbox, parts.cell.log
        self._fence = parts.fence
        self._audience = parts.audience
        self._syncing = parts.syncing
        self._recording = parts.recording
        self._losses = parts.losses
        self._recovery = parts.recovery
        self._parallel = parts.parallel
        self._participation = Participation(self._roster.cluster, self._outbox)
        self._uploads = Uploads(self._outbox)
        self._cell_parts = parts.cell
        self._cells_begun = self._transfers_begun = 0
        self.stop_request: tuple[bytes, str] | None = None
        """Client and request that asked for the end; answered last of all."""

    def tick(self, now_s: float) -> None:
        """Let go of what clients have left half done."""
        self._uploads.forget_silent(now_s)

    def on_request(self, received: Received, describe: Describe, now_s: float) -> None:
        """Take in one message of a client, or tell it why it could not be read."""
        client = received.identity
        self._audience.hear(client, now_s)
        self._participation.hear(client, now_s)
        self._parallel.hear(client, now_s)
        if received.problem is not None:
            self._outbox.to_client(client, _refuse(received.problem))
            return
        problem = self._find_mistake(received.message, len(received.buffers))
        if problem:
            refusal = Refused(received.message.request_id, "UsageError", problem)
            self._outbox.to_client(client, refusal)
            return
        objection = self._participation.find_objection(client, received.message, now_s)
        if objection:
            refusal = Refused(received.message.request_id, "ClusterInUse", objection)
            self._outbox.to_client(client, refusal)
            return
        self._dispatch(client, received, describe, now_s)

    def _find_mistake(self, message: FromClient, buffer_count: int) -> str:
        """Say why a request cannot be meant; our own clients check before they send."""
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

    def _dispatch(
        self, client: bytes, received: Received, describe: Describe, now_s: float
    ) -> None:
        message: FromClient = received.message
        match message:
            case AwaitReady() | TakePart():
                self._greet(client, message, now_s)
            case PushObjects() | SendPiece():
                self._take_push(client, message, received.buffers, now_s)
            case SubmitCell() | PullObject():
                work = self._make_work(client, message, received.buffers)
                self._fence.submit(work, now_s)
            case OutputSeen() | WithdrawCell() | InterruptCell():
                self._steer(client, message, now_s)
            case SyncCode() | SendCode() | SettleCode():
                self._syncing.on_request(client, message, received.buffers)
            case HealRanks() | ShrinkCluster() | StartController() | EndController():
                self._change(client, message, now_s)
            case WatchTopology() | ReadCollectives() | AskRanks() | Explain():
                self._show(client, message, describe, now_s)
            case ListCells() | ReplayOutput() | FollowCell():
                self._show_cells(client, message)
            case StopCluster():
                self.stop_request = (client, message.request_id)
            case _:
                assert_never(message)

    def _greet(self, client: bytes, message: AwaitReady | TakePart, now_s: float) -> None:
        match message:
            case AwaitReady():
                self._audience.await_ready(client, message.request_id)
            case TakePart():
                self._participation.take_part(client, message, now_s)
            case _:
                assert_never(message)

    def _steer(
        self, client: bytes, message: OutputSeen | WithdrawCell | InterruptCell, now_s: float
    ) -> None:
        match message:
            case OutputSeen():
                self._acknowledge(client, message)
            case WithdrawCell():
                self._withdraw(client, message, now_s)
            case InterruptCell():
                self._interrupt(client, message, now_s)
            case _:
                assert_never(message)

    def _change(
        self,
        client: bytes,
        message: HealRanks | ShrinkCluster | StartController | EndController,
        now_s: float,
    ) -> None:
        if isinstance(message, HealRanks | ShrinkCluster):
            self._recovery.on_request(client, message, now_s)
        else:
            self._parallel.on_request(client, message, now_s)

    def _show(
        self,
        client: bytes,
        message: WatchTopology | ReadCollectives | AskRanks | Explain,
        describe: Describe,
        now_s: float,
    ) -> None:
        match message:
            case WatchTopology():
                self._audience.watch(client, message, describe, now_s)
            case ReadCollectives():
                self._recording.on_request(client, message, now_s)
            case AskRanks():
                self._cell_parts.questions.on_request(client, message, now_s)
            case Explain():
                self._outbox.to_client(client, self._explain(message.request_id))
            case _:
                assert_never(message)

    def _explain(self, request_id: str) -> Explained:
        cell = self._fence.cell
        crashes = tuple(crash for _rank, crash in sorted(self._losses.crashes.items()))
        idle = (
            self._fence.describe_deaf() or self._losses.describe_suspects() or self._recovery.note
        )
        running = cell or self._fence.transfer
        label, verdict = (running.label, running.note) if running is not None else ("", idle)
        return Explained(request_id, label, verdict, crashes)

    def _show_cells(self, client: bytes, message: ListCells | ReplayOutput | FollowCell) -> None:
        request_id = message.request_id
        match message:
            case ListCells():
                self._outbox.to_client(client, self._log.list_cells(request_id))
            case ReplayOutput():
                self._outbox.to_client(client, self._log.replay(request_id, message.label))
            case FollowCell():
                self._log.follow(client, request_id, self._outbox)
            case _:
                assert_never(message)

    def _take_push(
        self, client: bytes, message: PushObjects | SendPiece, buffers: list[Frame], now_s: float
    ) -> None:
        """Take in a push, or a piece of one; it waits at the fence once it is whole."""
        if isinstance(message, SendPiece):
            whole = self._uploads.take(client, message, buffers[0], now_s)
            if whole is None:
                return
            message, buffers = whole
        elif message.sizes:
            self._uploads.begin(client, message, now_s)
            return
        self._fence.submit(self._make_work(client, message, buffers), now_s)

    def _make_work(
        self, client: bytes, request: SubmitCell | PushObjects | PullObject, buffers: list[Frame]
    ) -> Work:
        if not isinstance(request, SubmitCell):
            self._transfers_begun += 1
            transfer_id = f"transfer-{self._transfers_begun}"
            return Transfer(client, request, buffers, transfer_id, self._cell_parts)
        self._cells_begun += 1
        cell_id = f"cell-{self._cells_begun}"
        return CellRun(client, request, cell_id, self._cell_parts)

    def _acknowledge(self, client: bytes, message: OutputSeen) -> None:
        current = self._fence.cell
        if current is not None and current.cell_id == message.cell_id:
            current.showing.acknowledge(client, message.seen_bytes)
        self._log.acknowledge(client, message.cell_id, message.seen_bytes)

    def _withdraw(self, client: bytes, message: WithdrawCell, now_s: float) -> None:
        current = self._fence.current
        if self._uploads.forget(client, message.request_id):
            reason = "interrupted while it was sent; no rank has got it."
            self._outbox.to_client(client, Refused(message.request_id, "CellRefused", reason))
            return
        if self._fence.withdraw(client, message.request_id):
            return
        if not isinstance(current, CellRun | Transfer):
            return
        if (current.client, current.request_id) == (client, message.request_id):
            current.interrupt(set(current.ranks), message.request_id, now_s)

    def _interrupt(self, client: bytes, message: InterruptCell, now_s: float) -> None:
        wanted = set(message.ranks or range(self._roster.world_size))
        current = self._fence.cell or self._fence.current
        targets: tuple[int, ...] = ()
        if isinstance(current, CellRun | Transfer):
            targets = current.interrupt(wanted, message.request_id, now_s)
        else:  # ranks may still be busy with a cell that ran into its limit, or with a task
            busy = {*self._roster.ranks_in(EngineState.BUSY), *self._roster.ranks_in_tasks}
            targets = tuple(sorted(wanted & busy))
            self._outbox.send_signal(targets, signal.SIGINT, message.request_id)
        self._outbox.to_client(client, CellInterruptSent(message.request_id, targets))


def _refuse(problem: MalformedMessage | VersionMismatch) -> Refused:
    """Say why a request could not be read, to the one who waits for its answer if that is known."""
    if isinstance(problem, Unreadable):
        return Refused(problem.request_id, "MalformedMessage", str(problem))
    return Refused("", type(problem).__name__, str(problem))
