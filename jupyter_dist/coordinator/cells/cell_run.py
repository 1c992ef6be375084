"""One SPMD cell from admission to the last rank's end, whatever that end is."""

from dataclasses import dataclass
from typing import assert_never

import msgspec

from jupyter_dist.coordinator.agents.message_sender import NOBODY
from jupyter_dist.coordinator.cells.control_collectives import ControlCollectives
from jupyter_dist.coordinator.cells.event_flow import EventBatch, EventFlow
from jupyter_dist.coordinator.cells.failure_notice import FailureNotice
from jupyter_dist.coordinator.cells.input_queue import InputQueue
from jupyter_dist.coordinator.cells.interruption import Abort, Cause, Interruption
from jupyter_dist.coordinator.cells.output_log import OutputLog
from jupyter_dist.coordinator.debugging.held_ranks import HeldRanks
from jupyter_dist.coordinator.observation.hang_watch import HangWatch
from jupyter_dist.coordinator.observation.nccl_diagnostics import NcclDiagnostics, RasReading
from jupyter_dist.coordinator.observation.rank_queries import RankQueries
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import ARE_YOU_IDLE, Sender
from jupyter_dist.errors import WireError
from jupyter_dist.model.hosts.rank import name_rank
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.commands import PROGRAM
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    CellNote,
    CellOutput,
    CellResult,
    Command,
    ErrorInfo,
    FromInput,
    JoinCollective,
    RankFinished,
    RankOutput,
    RunCell,
    SubmitCell,
    WithdrawCollective,
    WithdrawInput,
)
from jupyter_dist.protocol.unreadable import kind_of
from jupyter_dist.text.lists import cut
from jupyter_dist.text.sizes import without_measures

EXPLAIN_AGAIN_S = 10.0
SAYS_MORE_S = 1.0
"""A note that says something else than the last one may follow it so soon."""
LOOK_INTERVAL_S = 0.25
"""How often it is looked who waits for whom."""
FLUSH_INTERVAL_S = 0.02
"""So long events are collected before the client is told, unless the cell has ended."""
_MOST_REASON = 300

FromCell = CellOutput | CellResult | JoinCollective | WithdrawCollective
"""What ranks say while they run a cell."""


@dataclass(frozen=True)
class CellParts:
    """What a cell needs of the coordinator."""

    roster: Roster
    rendezvous: Rendezvous
    sender: Sender
    questions: RankQueries
    log: OutputLog
    ras: RasReading
    held: HeldRanks

    @classmethod
    def make(cls, roster: Roster, rendezvous: Rendezvous, sender: Sender) -> "CellParts":
        """Make what there is one of in a coordinator."""
        questions, held = RankQueries(roster, sender), HeldRanks(roster, sender)
        return cls(roster, rendezvous, sender, questions, OutputLog(), RasReading(sender), held)


class CellRun:
    """A cell and what has come of it so far; a piece of Work for the fence."""

    def __init__(self, client: bytes, request: SubmitCell, cell_id: str, parts: CellParts) -> None:
        roster, sender = parts.roster, parts.sender
        self.client = client
        self.request_id = request.request_id
        self.cell_id = cell_id
        self.ranks = request.ranks or tuple(range(roster.world_size))
        self.label = f"In[{request.label}]"
        self.verdict = HangVerdict()
        """Who waits for whom at the moment, if that is worth a word."""
        self.request = request
        """What was asked for."""
        self.by = ""
        """The AI agent that has sent it, if one has."""
        self.is_over = False
        """Every rank has finished, and the client was told."""
        self._roster = roster
        self._rendezvous = parts.rendezvous
        self._sender = sender
        self._log, self._held = parts.log, parts.held
        self._batch = EventBatch()
        """What has happened since it was told last."""
        self._flow = EventFlow(client, cell_id, sender, self.request_id, self.ranks)
        """The way of its events to its client; those that follow it read the log."""
        witness = NcclDiagnostics(roster, parts.ras)
        self._hang_watch = HangWatch(
            self.ranks, roster, parts.questions, witness, tells_slowest=request.tells_slowest
        )
        self._interruption = Interruption(
            cell_id, request.timeout_s, roster, sender, parts.questions
        )
        self._failures = FailureNotice()
        self._collectives = ControlCollectives(cell_id, self.ranks, sender, parts.held.time)
        self._input: InputQueue | None = None
        """None: nothing was asked."""
        self._waiting: set[int] = set()
        self._has_aborted = False
        """Those that wait were told of a failure since the last tick."""
        self._next_abort: AbortCommunicator | None = None
        """What they are told with the next one: of several failures the last."""
        self.statuses: dict[int, str] = {}
        """How the cell has ended on the ranks where it has."""
        self.errors: dict[int, str] = {}
        """What went wrong on them, as `ValueError: boom`, or an empty string."""
        self._explained = ""
        self._explained_s = -SAYS_MORE_S
        self._next_tick_s = self._next_look_s = 0.0

    @property
    def note(self) -> str:
        """The verdict's sentence, or empty."""
        return self.verdict.text

    def tell(self, text: str) -> None:
        """Show a sentence to whoever watches the cell."""
        self._batch.add(CellNote(text))

    def start(self, now_s: float) -> None:
        """Send the cell to its ranks."""
        self._interruption.start(now_s)
        self._next_look_s = now_s + LOOK_INTERVAL_S
        self._next_tick_s = now_s + FLUSH_INTERVAL_S
        self._waiting = set(self.ranks)
        self._log.begin(self.cell_id, self.label, self.request.code, self.ranks, self.by)
        run = RunCell(
            self.cell_id,
            self._rendezvous.generation,
            self.request.code,
            self.ranks if len(self.ranks) < self._roster.world_size else None,
            self.request.label,
            self.request.is_plain_python,
            self.request.is_checked,
            self.request.command,
            self.request.shows_widgets,
            self.request.stops,
        )
        engines = self._roster.engines
        for rank in self.ranks:
            engines[rank].start_work(self.label, now_s)
        self._sender.to_engines(self.ranks, run)
        if self.client != NOBODY:
            for note in self._rendezvous.take_notes():
                self.tell(note)

    def on_message(self, message: FromCell, buffers: list[Frame], now_s: float) -> None:
        """Take in what one of its ranks says."""
        match message:
            case CellOutput():
                if message.rank in self._waiting:
                    self._batch.add(RankOutput((message.rank,), message.outputs))
            case CellResult():
                self.on_result(message, now_s)
            case JoinCollective():
                self._collectives.on_attend(message, buffers, now_s)
            case WithdrawCollective():
                self._collectives.on_leave(message)
            case _:
                assert_never(message)

    @property
    def input(self) -> InputQueue:
        """What its ranks ask a person."""
        if self._input is None:
            self._input = InputQueue(
                self.client,
                self._roster,
                self._sender,
                self._interruption.concerns,
                is_shared=self.request.is_input_shared,
            )
        return self._input

    def on_question(self, question: FromInput) -> None:
        """Take in what a rank asks a person, or that it waits for that no longer."""
        if isinstance(question, WithdrawInput):
            self.input.withdraw(question.rank, question.number)
            return
        self.flush()  # what it has said stands above the question
        if question.rank not in self._waiting:
            self.input.refuse(question, "its cell has ended")
        elif self._interruption.concerns(question.rank):  # a debugger asks again, for ever
            self.input.refuse(question, "its cell was interrupted")
        else:
            self.input.take(question)

    def on_result(self, result: CellResult, now_s: float) -> None:
        """Take in how the cell ended on a rank."""
        if result.rank not in self._waiting:
            return
        if result.outputs:
            self._batch.add(RankOutput((result.rank,), result.outputs))
        status = result.status
        causes = self._interruption.causes
        if status in ("interrupted", "peer_failed"):
            if Cause.LIMIT in causes:
                status = "timed_out"
            elif Cause.PERSON in causes:
                status = "interrupted"
        nobody_leaves = status != "ok" and self.request.on_error is OnError.WAIT and not causes
        self._finish(
            RankFinished(
                result.rank,
                status,
                result.duration_s,
                result.value_repr,
                result.error,
                report=result.report,
            ),
            is_missed=not nobody_leaves,
        )
        if nobody_leaves:
            self._rendezvous.is_broken = True
        elif status != "ok" and result.error is not None:
            self._release_others(*_find_cause(result.rank, status, result.error))
            if status == "raised" and self.request.on_error is OnError.INTERRUPT:
                self.interrupt_others(now_s)

    def on_unreadable(self, rank: int, problem: WireError) -> None:
        """Say that a rank has sent what nobody can read; it may have been how the cell ended."""
        if rank not in self._waiting:
            return
        self.tell(f"{name_rank(rank)} has sent something that could not be read: {problem}")
        if kind_of(problem) not in ("", "CellResult"):
            return  # its result is yet to come
        reason = f"how the cell ended here is not known: {problem}. The rank lives on"
        self._finish(RankFinished(rank, "raised", 0.0, error=ErrorInfo("WireError", reason)))
        self._sender.to_engine(rank, ARE_YOU_IDLE)
        self._release_others(rank, f"has sent something that could not be read: {problem}")

    def on_last_words(self, rank: int, outputs: RankOutput) -> None:
        """Pass on what a lost rank had written before its end."""
        if rank in self._waiting:
            self._batch.add(outputs)

    def on_lost(self, rank: int, reason: str, crash: CrashReport | None = None) -> None:
        """Take in that a rank is gone; the others are released from collectives with it."""
        if rank in self._waiting:
            error = ErrorInfo("RankLost", reason)
            self._finish(RankFinished(rank, "lost", 0.0, error=error, crash=crash))
        self._release_others(rank, f"is lost: {reason}")
        if self.request.on_error is OnError.INTERRUPT:
            self._interruption.causes.add(Cause.ERROR)  # the next tick sends it

    def interrupt_others(self, now_s: float) -> None:
        """Send SIGINT to the ranks that still run the cell and have had none: it has failed."""
        self._interruption.send_to_fresh(self._waiting, now_s)

    def interrupt(self, ranks: set[int], request_id: str, now_s: float) -> tuple[int, ...]:
        """Send SIGINT to the ranks that are busy with the cell; give them."""
        busy = ranks & set(self._roster.ranks_in(EngineState.BUSY))
        targets = tuple(rank for rank in self.ranks if rank in busy)
        self._interruption.send(Cause.PERSON, targets, request_id, now_s)
        return targets

    def tick(self, now_s: float) -> None:
        """Look at the time limit, at unanswered interrupts, and at who waits for whom.

        Then tell the client what has happened: a short cell is one delivery, whatever its number
        of ranks.
        """
        if self.is_over or (self._waiting and now_s < self._next_tick_s):
            return
        self._next_tick_s = now_s + FLUSH_INTERVAL_S
        if self._held.time.is_held:
            self._held.look(now_s)
        self._collectives.tick(now_s)
        for event in self._interruption.tick(self._waiting, now_s, self._held.time):
            match event:
                case Abort():
                    self._release_others(-1, event.reason)
                case RankFinished():
                    self._finish(event)
                case CellNote():
                    self._batch.add(event)
                case _:
                    assert_never(event)
        self._tell_last_failure()
        if news := self._failures.tick(self.statuses, self.errors, self._waiting, now_s):
            self._batch.add(CellNote(news, is_passing=True))
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_INTERVAL_S
            self._watch_progress(now_s)
        if self._waiting:
            self.flush()
            return
        self.is_over = True
        self._hand_on()
        self._flow.finish()
        self._log.finish()

    def _watch_progress(self, now_s: float) -> None:
        if self._input is not None:
            self._input.tick(now_s)
        self.verdict = self._hang_watch.look(self.statuses, self.errors, now_s)
        if not self.note:
            is_well = self._waiting and not self._interruption.causes
            if self._explained and is_well and set(self.statuses.values()) <= {"ok"}:
                self._batch.add(CellNote("", is_passing=True))  # else it is why the cell ends badly
            self._explained = ""
            return
        says_more = without_measures(self.note) != self._explained
        if now_s - self._explained_s > (SAYS_MORE_S if says_more else EXPLAIN_AGAIN_S):
            self._explained, self._explained_s = without_measures(self.note), now_s
            self._batch.add(CellNote(self.note, is_passing=True))

    def _finish(self, finished: RankFinished, *, is_missed: bool = True) -> None:
        """Note how the cell ended on a rank; with `is_missed` those who meet it learn of it."""
        rank = finished.rank
        self._waiting.discard(rank)
        if self._input is not None:
            self._input.end(rank)
        self.statuses[rank] = finished.status
        is_plain = finished.error is None and not finished.report
        self.errors[rank] = "" if is_plain else _tell_how(finished, self.request.command)
        self._collectives.on_finished(rank, finished.status, is_waited_for=not is_missed)
        self._batch.add(finished)

    def _release_others(self, failed_rank: int, reason: str) -> None:
        """Abort the communicator of ranks that may wait for one that will not come."""
        self._rendezvous.is_broken = True
        if Cause.PERSON in self._interruption.causes and failed_rank >= 0:
            failed_rank, reason = -1, "the cell was interrupted"
        abort = AbortCommunicator(self._rendezvous.generation, failed_rank, reason)
        if self._has_aborted:  # where all fail, each of them would be told of all others
            self._next_abort = abort
        else:
            self._has_aborted = True
            self._sender.to_engines(tuple(self._waiting), abort)

    def _tell_last_failure(self) -> None:
        """Tell those that still wait of the last failure since the one that they know of."""
        if self._next_abort is not None:
            self._sender.to_engines(tuple(self._waiting), self._next_abort)
        self._has_aborted, self._next_abort = False, None

    def _hand_on(self) -> None:
        """Give the batch to the log and to the way to the client."""
        if self._batch.is_empty:
            return
        events, self._batch = self._batch.events(), EventBatch()
        self._log.add(events)
        self._flow.add(events)

    def flush(self) -> None:
        """Send what has come since the last time."""
        self._hand_on()
        self._flow.flush()
        self._log.flush()

    def acknowledge(self, client: bytes, seen_bytes: int) -> None:
        """Note how much the client that sent the cell has taken in, over the whole cell."""
        if client == self.client:
            self._flow.acknowledge(seen_bytes)


def _tell_how(finished: RankFinished, command: Command | None) -> str:
    """Return the error of a rank, or the call by which its program has ended early; or nothing."""
    if finished.error is not None:
        return finished.error.evalue if finished.status == "lost" else str(finished.error)
    if not finished.report or command is None or command.name != PROGRAM.name:
        return ""
    try:
        return cut(PROGRAM.read_report(finished.report), _MOST_REASON)
    except msgspec.DecodeError:  # a rank may send anything
        return ""


def _find_cause(rank: int, status: str, error: ErrorInfo) -> tuple[int, str]:
    """Return who is to blame, and what it did: a rank that was released names another one.

    Its word may come before that of the other one itself.
    """
    if error.peer_rank >= 0:
        return error.peer_rank, _one_line(error.peer_reason)
    verb = "raised " if status == "raised" else ""
    return rank, f"{verb}{_one_line(str(error))}"


def _one_line(text: str) -> str:
    """Shorten a message so that it fits into another one."""
    return cut(" ".join(text.split()), _MOST_REASON)
