"""One SPMD cell from admission to the last rank's end, whatever that end is."""

import signal
from typing import assert_never

from jupyter_dist.coordinator.flow import EventFlow
from jupyter_dist.coordinator.meetings import Meetings
from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.output_log import OutputLog
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.model.progress import RankProgress, explain
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    Attend,
    CellAdmitted,
    CellEvent,
    CellNote,
    CellOutput,
    CellResult,
    ErrorInfo,
    LeaveMeeting,
    RankFinished,
    RankOutput,
    RunCell,
    SubmitCell,
)

INTERRUPT_PATIENCE_S = 2.0
"""A rank that is busy for so long after SIGINT is named, and its communicator aborted."""
EXPLAIN_AGAIN_S = 10.0
LOOK_INTERVAL_S = 0.25
"""How often it is looked who waits for whom."""
FLUSH_INTERVAL_S = 0.02
"""So long events are collected before the client is told, unless the cell has ended."""

FromCell = CellOutput | CellResult | Attend | LeaveMeeting
"""What ranks say while they run a cell."""


class CellRun:
    """A cell and what has come of it so far; a piece of Work for the fence."""

    def __init__(  # noqa: PLR0913, PLR0917  (the four collaborators are the coordinator's own parts)
        self,
        client: bytes,
        request: SubmitCell,
        cell_id: str,
        roster: Roster,
        rendezvous: Rendezvous,
        outbox: Outbox,
        log: OutputLog,
    ) -> None:
        self.client = client
        self.request_id = request.request_id
        self.cell_id = cell_id
        self.ranks = request.ranks or tuple(range(roster.world_size))
        self.label = f"In[{request.label}]"
        self.note = ""
        """Who waits for whom at the moment, or empty."""
        self._request = request
        self._roster = roster
        self._rendezvous = rendezvous
        self._outbox = outbox
        self._log = log
        self._flow = EventFlow(client, cell_id, outbox)
        self._meetings = Meetings(cell_id, self.ranks, outbox)
        self._waiting: set[int] = set()
        self._statuses: dict[int, str] = {}
        self._started_s = 0.0
        self._interrupted_s: float | None = None
        self._timed_out_s: float | None = None
        self._named_deaf = False
        self._explained_s = 0.0
        self._is_announced = False
        self._has_finished = False
        self._next_look_s = 0.0
        self._next_flush_s = 0.0

    @property
    def is_over(self) -> bool:
        """Every rank has finished, and the client was told."""
        return self._has_finished

    @property
    def flow(self) -> EventFlow:
        """The way of its events to its client."""
        return self._flow

    def start(self, now_s: float) -> None:
        """Send the cell to its ranks."""
        self._started_s = now_s
        self._next_look_s = now_s + LOOK_INTERVAL_S
        self._next_flush_s = now_s + FLUSH_INTERVAL_S
        self._waiting = set(self.ranks)
        self._log.begin(self.cell_id, self._request.code)
        run = RunCell(
            self.cell_id,
            self._rendezvous.generation,
            self._request.code,
            self.ranks,
            self._request.label,
            self._request.is_plain_python,
            self._request.is_checked,
        )
        for rank in self.ranks:
            self._roster.start_work(rank, self.label, now_s)
        self._outbox.to_engines(self.ranks, run)

    def on_message(self, message: FromCell, buffers: list[Frame], now_s: float) -> None:
        """Take in what one of its ranks says."""
        match message:
            case CellOutput():
                self.on_output(message)
            case CellResult():
                self.on_result(message)
            case Attend():
                self._meetings.on_attend(message, buffers, now_s)
            case LeaveMeeting():
                self._meetings.on_leave(message)
            case _:
                assert_never(message)

    def on_output(self, output: CellOutput) -> None:
        """Pass on what a rank said."""
        if output.rank in self._waiting:
            self._emit(RankOutput(output.rank, output.outputs))

    def on_result(self, result: CellResult) -> None:
        """Take in how the cell ended on a rank."""
        if result.rank not in self._waiting:
            return
        if result.outputs:
            self._emit(RankOutput(result.rank, result.outputs))
        status = result.status
        if status in ("interrupted", "peer_failed"):
            if self._timed_out_s is not None:
                status = "timed_out"
            elif self._interrupted_s is not None:
                status = "interrupted"
        self._finish_rank(result.rank, status, result.duration_s, result.error, result.value_repr)
        if status != "ok" and result.error is not None:
            verb = "raised " if status == "raised" else ""
            self._release_others(result.rank, f"{verb}{_one_line(str(result.error))}")

    def on_last_words(self, rank: int, outputs: RankOutput) -> None:
        """Pass on what a lost rank had written before its end."""
        if rank in self._waiting:
            self._emit(outputs)

    def on_lost(self, rank: int, reason: str) -> None:
        """Take in that a rank is gone; the others are released from collectives with it."""
        if rank in self._waiting:
            error = ErrorInfo("RankLost", reason)
            self._finish_rank(rank, "lost", 0.0, error, None)
        self._release_others(rank, f"is lost: {reason}")

    def interrupt(self, ranks: set[int], request_id: str, now_s: float) -> tuple[int, ...]:
        """Send SIGINT to the ranks that still run; give them."""
        targets = tuple(sorted(self._waiting & ranks))
        if targets:
            self._interrupted_s = now_s
            self._named_deaf = False
            self._outbox.send_signal(targets, signal.SIGINT, request_id)
        return targets

    def tick(self, now_s: float) -> None:
        """Look at the time limit, at unanswered interrupts, and at who waits for whom."""
        if self._has_finished:
            return
        self._meetings.tick(now_s)
        self._watch_limit(now_s)
        self._watch_interrupt(now_s)
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_INTERVAL_S
            self._watch_progress(now_s)
        if now_s >= self._next_flush_s or not self._waiting:
            self._next_flush_s = now_s + FLUSH_INTERVAL_S
            self._tell_client()

    def _tell_client(self) -> None:
        """Send what has happened; a short cell is one delivery, whatever its number of ranks."""
        if not self._is_announced:
            self._is_announced = True
            admitted = CellAdmitted(self.request_id, self.cell_id, self.ranks)
            self._outbox.to_client(self.client, admitted)
        if self._waiting:
            self._flow.flush()
            return
        self._has_finished = True
        self._flow.finish()

    def _watch_limit(self, now_s: float) -> None:
        limit_s = self._request.timeout_s
        if limit_s is None or not self._waiting:
            return
        if self._timed_out_s is None:
            if now_s - self._started_s >= limit_s:
                self._timed_out_s = now_s
                self._release_others(-1, f"the cell ran into its time limit of {limit_s:g} s")
                ranks = tuple(sorted(self._waiting))
                self._outbox.send_signal(ranks, signal.SIGINT, f"limit-{self.cell_id}")
            return
        if now_s - self._timed_out_s >= INTERRUPT_PATIENCE_S:
            for rank in sorted(self._waiting):
                text = f"ran into the time limit of {limit_s:g} s and is still busy"
                error = ErrorInfo("CellTimedOut", text)
                self._finish_rank(rank, "timed_out", now_s - self._started_s, error, None)

    def _watch_interrupt(self, now_s: float) -> None:
        if self._interrupted_s is None or self._named_deaf or not self._waiting:
            return
        if now_s - self._interrupted_s >= INTERRUPT_PATIENCE_S:
            self._named_deaf = True
            self._release_others(-1, "the cell was interrupted")
            verb = "has" if len(self._waiting) == 1 else "have"
            self._emit(
                CellNote(
                    f"{name_ranks(self._waiting)} {verb} not answered the interrupt for "
                    f"{INTERRUPT_PATIENCE_S:g} s (busy in code that does not look for signals); "
                    "interrupt once more to get the prompt back"
                )
            )

    def _watch_progress(self, now_s: float) -> None:
        progress = [
            RankProgress(
                rank,
                self._statuses.get(rank, "running"),
                self._roster[rank].collective if rank in self._waiting else None,
            )
            for rank in self.ranks
        ]
        was_silent = not self.note
        self.note = explain(progress) if self._waiting else ""
        if self.note and (was_silent or now_s - self._explained_s > EXPLAIN_AGAIN_S):
            self._explained_s = now_s
            self._emit(CellNote(self.note))

    def _finish_rank(
        self,
        rank: int,
        status: str,
        duration_s: float,
        error: ErrorInfo | None,
        value_repr: str | None,
    ) -> None:
        self._waiting.discard(rank)
        self._statuses[rank] = status
        self._meetings.on_finished(rank, status)
        self._emit(RankFinished(rank, status, duration_s, value_repr, error))

    def _release_others(self, failed_rank: int, reason: str) -> None:
        """Abort the communicator of ranks that may wait for one that will not come."""
        self._rendezvous.is_broken = True
        if self._interrupted_s is not None and failed_rank >= 0:
            failed_rank, reason = -1, "the cell was interrupted"
        abort = AbortCommunicator(self._rendezvous.generation, failed_rank, reason)
        for rank in self._waiting:
            self._outbox.to_engine(rank, abort)

    def _emit(self, event: CellEvent) -> None:
        self._log.add(event)
        self._flow.add(event)


def _one_line(text: str, limit: int = 300) -> str:
    """Shorten a message so that it fits into another one."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"
