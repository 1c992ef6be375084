"""What clients ask for: each request goes to the part that can answer it."""

import signal
from typing import assert_never

from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.audience import Audience, Describe
from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.fence import Fence, Work
from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.output_log import OutputLog
from jupyter_dist.coordinator.recording import Recording
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.coordinator.syncing import Syncing
from jupyter_dist.coordinator.transfers import Transfer
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AwaitReady,
    CellInterruptSent,
    FromClient,
    InterruptCell,
    OutputSeen,
    PullObject,
    PushObjects,
    ReadCollectives,
    Refused,
    ReplayOutput,
    SendCode,
    SettleCode,
    StopCluster,
    SubmitCell,
    SyncCode,
    WatchTopology,
    WithdrawCell,
)


class Requests:
    """The coordinator's desk."""

    def __init__(  # noqa: PLR0913, PLR0917  (it sends requests to every part)
        self,
        roster: Roster,
        rendezvous: Rendezvous,
        fence: Fence,
        audience: Audience,
        outbox: Outbox,
        syncing: Syncing,
        recording: Recording,
    ) -> None:
        self._roster = roster
        self._rendezvous = rendezvous
        self._fence = fence
        self._audience = audience
        self._outbox = outbox
        self._syncing = syncing
        self._recording = recording
        self._log = OutputLog()
        self._cells_begun = 0
        self.stop_request: tuple[bytes, str] | None = None
        """Client and request that asked for the end; answered last of all."""

    def on_request(self, received: Received, describe: Describe, now_s: float) -> None:
        """Take in one message of a client, or tell it why it could not be read."""
        client = received.identity
        self._audience.hear(client, now_s)
        if received.problem is not None:
            kind = type(received.problem).__name__
            self._outbox.to_client(client, Refused("", kind, str(received.problem)))
            return
        problem = self._find_mistake(received.message, len(received.buffers))
        if problem:
            refusal = Refused(received.message.request_id, "UsageError", problem)
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
            if sum(counts) != buffer_count:
                return f"{sum(counts)} frames were announced, {buffer_count} came."
        return ""

    def _dispatch(
        self, client: bytes, received: Received, describe: Describe, now_s: float
    ) -> None:
        message: FromClient = received.message
        match message:
            case AwaitReady():
                self._audience.await_ready(client, message.request_id)
            case SubmitCell() | PushObjects() | PullObject():
                work = self._make_work(client, message, received.buffers)
                self._fence.submit(work, now_s)
            case OutputSeen():
                self._acknowledge(message)
            case WithdrawCell():
                self._withdraw(client, message, now_s)
            case InterruptCell():
                self._interrupt(client, message, now_s)
            case SyncCode() | SendCode() | SettleCode():
                self._syncing.on_request(client, message, received.buffers)
            case WatchTopology() | ReplayOutput() | ReadCollectives():
                self._show(client, message, describe, now_s)
            case StopCluster():
                self.stop_request = (client, message.request_id)
            case _:
                assert_never(message)

    def _show(
        self,
        client: bytes,
        message: WatchTopology | ReplayOutput | ReadCollectives,
        describe: Describe,
        now_s: float,
    ) -> None:
        match message:
            case WatchTopology():
                self._audience.watch(client, message, describe, now_s)
            case ReplayOutput():
                is_running = isinstance(self._fence.current, CellRun)
                self._outbox.to_client(client, self._log.replay(message.request_id, is_running))
            case ReadCollectives():
                self._recording.on_request(client, message, now_s)
            case _:
                assert_never(message)

    def _make_work(
        self, client: bytes, request: SubmitCell | PushObjects | PullObject, buffers: list[Frame]
    ) -> Work:
        if not isinstance(request, SubmitCell):
            return Transfer(client, request, buffers, self._roster, self._outbox)
        self._cells_begun += 1
        cell_id = f"cell-{self._cells_begun}"
        return CellRun(
            client, request, cell_id, self._roster, self._rendezvous, self._outbox, self._log
        )

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
            self._outbox.send_signal(targets, signal.SIGINT, message.request_id)
        self._outbox.to_client(client, CellInterruptSent(message.request_id, targets))
