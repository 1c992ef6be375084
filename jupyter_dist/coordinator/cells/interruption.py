"""How a running cell is stopped: what follows an interrupt, step by step, until the prompt is back.

SIGINT is sent as the steps begin, and whenever someone asks again; the clock of the steps
goes on then. Nothing is killed here: that is offered, and the ranks that do not respond stay busy.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, assert_never

from jupyter_dist.coordinator.cells.answer_time import AnswerTimes
from jupyter_dist.coordinator.observation.rank_queries import Answers, RankQueries
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.model.ranks.signals import WAKING_SIGNAL
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.protocol.messages import (
    Answer,
    CellNote,
    ErrorInfo,
    NoAnswer,
    RankFinished,
    ReadStacks,
)
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import fit

WAKE_AFTER_S = (0.2, 0.5, 1.0)
"""A rank that is still busy this long after SIGINT is woken: the signal may have come between
Python's last look for signals and a blocking call, or to another thread; that call goes on then.
Again, as a rank that had no core gets SIGINT and what shall wake it at once, between these two."""
PATIENCE_S = 2.0
"""A rank that is busy for so long after SIGINT is named, and its communicator aborted."""
GIVE_UP_AFTER_S = 3.5
"""The cell ends without a rank that is busy for so long after SIGINT."""
LOOK_TIMEOUT_S = 1.0
"""So long it may take to find out what the ranks are doing."""

_STATES = {
    "T": "its process is stopped by a signal",
    "D": "the kernel waits for a disk, a network file system or swap",
}


class Cause(StrEnum):
    """Why ranks are interrupted."""

    PERSON = "person"
    """Someone asked for it."""
    ERROR = "error"
    """Another rank has raised, and the cell was sent with `on_error` interrupt."""
    LIMIT = "limit"
    """The cell ran into its time limit."""


class Step(StrEnum):
    """What is done about ranks that are still busy."""

    WAKE = "wake"
    """End the system call that they are in, so that Python sees the SIGINT it has."""
    ABORT = "abort"
    """Break the communicator: who waits in a collective leaves it."""
    NAME = "name"
    """Say who they are and what they do."""
    LEAVE_UNRESPONSIVE = "leave_unresponsive"
    """End the cell without them, and offer to replace them."""
    TIME_OUT = "time_out"
    """End the cell without them: its time is over."""


_ORDER = tuple(Step)
STEPS: dict[Cause, tuple[tuple[float, Step], ...]] = {
    Cause.PERSON: (
        *((after_s, Step.WAKE) for after_s in WAKE_AFTER_S),
        (PATIENCE_S, Step.ABORT),
        (PATIENCE_S, Step.NAME),
        (GIVE_UP_AFTER_S, Step.LEAVE_UNRESPONSIVE),
    ),
    Cause.ERROR: (
        *((after_s, Step.WAKE) for after_s in WAKE_AFTER_S),
        (PATIENCE_S, Step.NAME),
        (GIVE_UP_AFTER_S, Step.LEAVE_UNRESPONSIVE),
    ),
    Cause.LIMIT: (
        (0.0, Step.ABORT),
        *((after_s, Step.WAKE) for after_s in WAKE_AFTER_S),
        (PATIENCE_S, Step.TIME_OUT),
    ),
}
"""Seconds in which a rank could have answered SIGINT (answer_time.py), and what is done then."""


class Due(NamedTuple):
    """A step that is to be taken now."""

    step: Step
    cause: Cause
    ranks: tuple[int, ...]


class Abort(NamedTuple):
    """Break the communicator of all that are still busy."""

    reason: str


Event = Abort | CellNote | RankFinished
"""What the cell does about it."""


@dataclass
class _Progress:
    """How far one rank has come."""

    cause: Cause
    taken: int = 0


class EscalationPolicy:
    """Which step each interrupted rank has reached; pure."""

    def __init__(self, times: AnswerTimes) -> None:
        self._times = times
        self._climbs: dict[int, _Progress] = {}

    def __contains__(self, rank: int) -> bool:
        return rank in self._climbs

    def begin(self, cause: Cause, ranks: Iterable[int], now_s: float) -> None:
        """Note that SIGINT was sent; only a time limit starts the clock of a rank again."""
        self._times.look()
        for rank in ranks:
            if cause is Cause.LIMIT or rank not in self._climbs:
                self._climbs[rank] = _Progress(cause)
                self._times.begin(rank, now_s)

    def take_due(self, waiting: AbstractSet[int], now_s: float) -> list[Due]:
        """Return the steps that are to be taken now, in their order, each once for each rank.

        `waiting` are the ranks that are still waited for: the others have finished, or do not
        respond.
        """
        found: dict[tuple[Step, Cause], list[int]] = {}
        for rank in sorted(self._climbs.keys() - waiting):
            del self._climbs[rank]
        self._times.look()
        for rank, climb in sorted(self._climbs.items()):
            busy_s = self._times.passed_s(rank, now_s)
            for after_s, step in STEPS[climb.cause][climb.taken :]:
                if busy_s < after_s:
                    break
                climb.taken += 1
                found.setdefault((step, climb.cause), []).append(rank)
        return [
            Due(step, cause, tuple(dict.fromkeys(found[step, cause])))
            for step, cause in sorted(found, key=lambda key: _ORDER.index(key[0]))
        ]


class Interruption:
    """What interrupts one cell: people, its time limit, a rank that raised."""

    def __init__(
        self,
        cell_id: str,
        limit_s: float | None,
        roster: Roster,
        sender: Sender,
        questions: RankQueries,
    ) -> None:
        self._cell_id = cell_id
        self._limit_s = limit_s
        self._roster = roster
        self._sender = sender
        self._queries = questions
        self._started_s = 0.0
        self._ladder = EscalationPolicy(AnswerTimes(roster, sender))
        self._places: dict[int, str] = {}
        """Where ranks were when they were looked at, to follow what is said of them."""
        self._answers: list[Answers] = []
        self.causes: set[Cause] = set()
        """Everything that has interrupted this cell so far."""

    def start(self, now_s: float) -> None:
        """Note that the cell was sent."""
        self._started_s = now_s

    def send(self, cause: Cause, ranks: Sequence[int], request_id: str, now_s: float) -> None:
        """Send SIGINT to ranks that are busy with the cell."""
        if ranks:
            self.causes.add(cause)
            kept = set() if cause is Cause.PERSON else self._kept_by_tasks(ranks)
            self._roster.owe_interrupt(kept, self._cell_id)
            if free := tuple(rank for rank in ranks if rank not in kept):
                self._sender.send_signal(free, signal.SIGINT, request_id, self._cell_id)
            self._ladder.begin(cause, ranks, now_s)

    def send_to_fresh(self, waiting: Iterable[int], now_s: float) -> None:
        """Interrupt the ranks that nobody has interrupted yet: another one has raised."""
        self.causes.add(Cause.ERROR)
        waiting = set(waiting)
        # A task of ipyparallel has nothing to do with it: its rank is interrupted after that.
        later = self._kept_by_tasks(waiting)
        fresh = tuple(rank for rank in sorted(waiting - later) if rank not in self._ladder)
        self.send(Cause.ERROR, fresh, f"error-{self._cell_id}", now_s)

    def concerns(self, rank: int) -> bool:
        """Return whether this rank was interrupted, and is still busy as far as is known."""
        return rank in self._ladder

    def tick(self, waiting: set[int], now_s: float, held: HeldTime) -> list[Event]:
        """Return what is to be done now about the ranks that are still busy.

        The time limit does not run while ranks are in a debugger.
        """
        limit_s, is_past = self._limit_s, Cause.LIMIT in self.causes
        if limit_s is not None and not is_past and self._ran_s(now_s, held) >= limit_s:
            self.send(Cause.LIMIT, sorted(waiting), f"limit-{self._cell_id}", now_s)
        if Cause.ERROR in self.causes:
            self.send_to_fresh(waiting, now_s)
        events = self._name_unanswered(waiting)
        for due in self._ladder.take_due(waiting, now_s):
            events += self._take(due, now_s)
        return events

    def _ran_s(self, now_s: float, held: HeldTime) -> float:
        return now_s - self._started_s - held.held_s(self._started_s, now_s)

    def _take(self, due: Due, now_s: float) -> list[Event]:
        limit = f"its time limit of {self._limit_s or 0.0:g} s"
        match due.step:
            case Step.WAKE:
                woken = tuple(sorted(set(due.ranks) - self._kept_by_tasks(due.ranks)))
                self._sender.send_signal(
                    woken, WAKING_SIGNAL, f"wake-{self._cell_id}", self._cell_id
                )
                return []
            case Step.ABORT:
                is_limit = due.cause is Cause.LIMIT
                return [Abort(f"the cell {f'ran into {limit}' if is_limit else 'was interrupted'}")]
            case Step.NAME:
                self._queries.ask(
                    due.ranks, ReadStacks(), LOOK_TIMEOUT_S, now_s, self._answers.append
                )
                return []
            case Step.LEAVE_UNRESPONSIVE:
                others = self._roster.world_size > len(due.ranks)
                return [
                    CellNote(offer_healing(due.ranks, with_others=others), is_passing=True),
                    *(self._leave(rank, now_s) for rank in due.ranks),
                ]
            case Step.TIME_OUT:
                busy_s, kept = now_s - self._started_s, self._kept_by_tasks(due.ranks)
                late = "has not begun it: a task of ipyparallel has not ended"
                return [
                    RankFinished(
                        rank,
                        "timed_out",
                        busy_s,
                        error=ErrorInfo(
                            "CellTimedOut",
                            f"ran into {limit} and {late if rank in kept else 'is still busy'}",
                        ),
                    )
                    for rank in due.ranks
                ]
            case _:
                assert_never(due.step)

    def _kept_by_tasks(self, ranks: Iterable[int]) -> set[int]:
        """Return those that have not begun the cell, as they run a task of ipyparallel."""
        return set(ranks).intersection(self._roster.ranks_in_tasks)

    def _leave(self, rank: int, now_s: float) -> RankFinished:
        text = f"is still busy{self._places.get(rank, '')}"
        error = ErrorInfo("CellInterrupted", text)
        return RankFinished(rank, "unresponsive", now_s - self._started_s, error=error)

    def _name_unanswered(self, waiting: set[int]) -> list[Event]:
        notes: list[Event] = []
        while self._answers:
            found = find_places(self._answers.pop(0))
            self._places |= found
            if still_busy := waiting & found.keys():
                notes.append(CellNote(name_unanswered(still_busy, found), is_passing=True))
        return notes


def find_places(answers: Answers) -> dict[int, str]:
    """Say of each rank where it was seen, as `: In[4]:7: lib.sleep(30)`, or why that is not known.

    The texts follow what is said of the rank.
    """
    places = {rank: _place(answer) for rank, answer in answers.answers.items()}
    return places | {rank: _unknown(reason) for rank, reason in answers.problems.items()}


def _place(answer: Answer) -> str:
    if not isinstance(answer, RankStacks):
        return _unknown(answer.reason if isinstance(answer, NoAnswer) else "")
    main = answer.main
    state = _STATES.get(answer.process_state, "")
    if main is None or not main.frames:
        return _unknown(state or answer.note)
    innermost = main.frames[-1]
    # The outermost one is in the cell that runs; others are functions of earlier cells.
    in_cell = next((frame for frame in main.frames if frame.is_in_cell), innermost)
    caller = f"called from {in_cell.site}" if in_cell is not innermost else ""
    remarks = "; ".join(remark for remark in (caller, state) if remark)
    return f": {innermost} ({remarks})" if remarks else f": {innermost}"


def _unknown(reason: str) -> str:
    return f" (where it is, is not known: {reason.rstrip('.')})" if reason else ""


def name_unanswered(ranks: Iterable[int], places: Mapping[int, str]) -> str:
    """Name ranks that have not answered the interrupt: a line for those at the same place."""
    groups = group_pairs((places.get(rank, ""), rank) for rank in sorted(ranks))
    lines = []
    for place, members in groups.items():
        verb = fit(members, "has", "have")
        lines.append(
            f"{name_ranks(members)} {verb} not answered the interrupt for {PATIENCE_S:g} s{place}"
        )
    return "\n".join(lines)


def offer_healing(ranks: Iterable[int], *, with_others: bool) -> str:
    """Return who does not respond, and what can be done about it; nothing is done on its own."""
    ranks = sorted(ranks)
    verb, them = fit(ranks, ("is", "it"), ("are", "them"))
    others = "; the other ranks keep their state" if with_others else ""
    return (
        f"{name_ranks(ranks)} {verb} not responding to the interrupt. %dist_heal --ranks "
        f"{format_ranks(ranks)} kills and replaces {them}{others}"
    )
