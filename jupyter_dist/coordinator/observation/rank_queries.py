"""Questions that ranks answer while they run cells, on their way there and back.

Each rank is asked on its own, and agents look at those that do not answer; who says nothing is
named with the reason, after the time that the question has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import msgspec

from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.coordinator.state.roster import EngineRecord, Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    About,
    Answer,
    Answered,
    AskRanks,
    Question,
    RanksAnswered,
    ReadStacks,
)
from jupyter_dist.protocol.unreadable import read_or

_STACKS = msgspec.msgpack.Decoder(RankStacks)
_UNREADABLE = RankStacks("none", note="what its agent has seen cannot be read")
MOST_OPEN = 64
"""More questions at a time are refused."""
TIMEOUTS_S = (0.05, 60.0)
"""What a question may take, at least and at most."""
AGENT_SHARE = 0.8
"""Of the time that is left, what an agent may take."""


class Answers(NamedTuple):
    """What came of a question."""

    answers: dict[int, Answer]
    problems: dict[int, str]
    """Ranks that have not answered, with the reason."""


@dataclass
class _Open:
    """A question that is not answered yet; ranks are kept by the names of their engines."""

    about: About
    timeout_s: float
    deadline_s: float
    look_s: float | None
    """When agents are asked to look at ranks that are silent; None: they have been, or cannot."""
    waiting: dict[str, int]
    on_answered: Callable[[Answers], None]
    answers: dict[int, Answer] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)
    spare: dict[str, RankStacks] = field(default_factory=dict)
    """What counts if nothing better comes."""

    @property
    def is_native(self) -> bool:
        """Agents know more than the ranks themselves."""
        return isinstance(self.about, ReadStacks) and self.about.is_native

    @property
    def due_s(self) -> float:
        """When something is to be done about who has not answered."""
        return self.deadline_s if self.look_s is None else min(self.look_s, self.deadline_s)

    def settle(self, engine: str, answer: Answer) -> None:
        """Take an answer as the one that counts."""
        self.answers[self.waiting.pop(engine)] = answer

    def give_up(self, engine: str, problem: str) -> None:
        """Wait for this engine no longer."""
        rank = self.waiting.pop(engine)
        if engine in self.spare:
            self.answers[rank] = self.spare[engine]
        else:
            self.problems[rank] = problem


class RankQueries:
    """Every question that is not answered yet."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster = roster
        self._sender = sender
        self._open: dict[str, _Open] = {}
        """By the name that ranks and agents know: request ids are a client's own."""
        self._numbers = count(1)

    @property
    def is_asking(self) -> bool:
        """Some question is not answered yet."""
        return bool(self._open)

    def ask(
        self,
        ranks: Sequence[int],
        about: About,
        timeout_s: float,
        now_s: float,
        on_answered: Callable[[Answers], None],
    ) -> None:
        """Ask these ranks; `on_answered` is called once, within `timeout_s`."""
        timeout_s = _bound(timeout_s)
        engines = [self._roster[rank] for rank in ranks]
        present = [engine for engine in engines if engine.is_present and engine.pid]
        question = _Open(
            about,
            timeout_s,
            now_s + timeout_s,
            now_s + timeout_s / 2 if isinstance(about, ReadStacks) else None,
            {engine.name: engine.info.rank for engine in present},
            on_answered,
        )
        question.problems |= {
            engine.info.rank: _why_absent(engine)
            for engine in engines
            if engine.name not in question.waiting
        }
        question_id = f"question-{next(self._numbers)}"
        self._open[question_id] = question
        self._sender.to_engines(list(question.waiting.values()), Question(question_id, about))
        if question.is_native:
            self._have_looked_at(question_id, now_s)
        self._end_if_complete(question_id)

    def on_request(self, client: bytes, request: AskRanks, now_s: float) -> None:
        """Ask for a client."""
        request_id = request.request_id
        if len(self._open) >= MOST_OPEN:
            reason = f"{MOST_OPEN} questions are waiting for answers. Ask again in a moment."
            self._sender.refuse(client, request_id, ErrorCode.DIST_ERROR, reason)
            return

        def answer(found: Answers) -> None:
            self._sender.to_client(client, RanksAnswered(request_id, *found))

        ranks = range(self._roster.world_size) if request.ranks is None else request.ranks
        self.ask(ranks, request.about, request.timeout_s, now_s, answer)

    def on_answered(self, message: Answered) -> None:
        """Take in what a rank says."""
        question = self._open.get(message.request_id)
        engine = self._roster[message.rank].name
        if question is None or engine not in question.waiting:
            return
        if not question.is_native or not isinstance(message.answer, RankStacks):
            question.settle(engine, message.answer)
        elif engine in question.spare:  # its agent could not look, and has said why
            note = question.spare[engine].note
            question.settle(engine, msgspec.structs.replace(message.answer, note=note))
        else:
            question.spare[engine] = message.answer
        self._end_if_complete(message.request_id)

    def on_event(self, host: str, event: pb.AgentEvent, _now_s: float) -> None:
        """Take in what an agent has seen."""
        dumped = event.stacks_dumped
        question = self._open.get(dumped.request_id)
        if question is None:
            return
        for seen in dumped.engines:
            rank = question.waiting.get(seen.engine)
            if rank is not None and self._is_on(host, seen.engine):
                stacks = read_or(_STACKS, seen.stacks, _UNREADABLE)
                self._take_look(question, seen.engine, stacks)
        self._end_if_complete(dumped.request_id)

    def _is_on(self, host: str, engine: str) -> bool:
        found = self._roster.find(engine)
        return found is not None and found.info.host == host

    @staticmethod
    def _take_look(question: _Open, engine: str, stacks: RankStacks) -> None:
        """Take in what an agent saw; what it could not see the rank may tell yet."""
        own = question.spare.get(engine)
        if stacks.source != "none" or stacks.process_state == "T":
            question.settle(engine, stacks)
        elif own is not None:
            question.settle(engine, msgspec.structs.replace(own, note=stacks.note))
        else:
            question.spare[engine] = stacks

    def _give_up(self, engine: str, reason: str) -> None:
        for question_id, question in list(self._open.items()):
            if engine in question.waiting:
                question.spare.pop(engine, None)
                question.give_up(engine, reason)
                self._end_if_complete(question_id)

    def tick(self, now_s: float) -> float:
        """Have silent ranks looked at, and end the questions whose time is over.

        Returns when to look again.
        """
        for engine in {name for question in self._open.values() for name in question.waiting}:
            record = self._roster.find(engine)
            if record is None:
                self._give_up(engine, "it was replaced meanwhile")
            elif not record.is_present:
                self._give_up(engine, _why_absent(record))
        for question_id, question in list(self._open.items()):
            if question.look_s is not None and now_s >= question.look_s:
                self._have_looked_at(question_id, now_s)
            if now_s >= question.deadline_s:
                for engine in list(question.waiting):
                    question.give_up(engine, self._why_silent(engine, question))
                self._end_if_complete(question_id)
        return min((question.due_s for question in self._open.values()), default=NEVER)

    def _have_looked_at(self, question_id: str, now_s: float) -> None:
        """Ask the agents of ranks that have not answered."""
        question = self._open[question_id]
        question.look_s = None
        left_s = max(question.deadline_s - now_s, TIMEOUTS_S[0])
        for host, ranks in self._roster.group_by_host(self._ranks_of(question)).items():
            names = [self._roster[rank].name for rank in ranks]
            command = pb.DumpStacks(
                request_id=question_id,
                engines=names,
                is_native=question.is_native,
                timeout_s=left_s * AGENT_SHARE,
            )
            self._sender.to_agent(host, pb.AgentCommand(dump_stacks=command))

    def _ranks_of(self, question: _Open) -> list[int]:
        """Return the ranks that engines have now which have not answered."""
        found = [self._roster.find(engine) for engine in question.waiting]
        return [engine.info.rank for engine in found if engine is not None]

    def _why_silent(self, engine: str, question: _Open) -> str:
        """Return why a rank that lives has not answered, as far as that is known."""
        late = f"it has not answered for {question.timeout_s:g} s"
        record = self._roster.find(engine)
        state = record.sample.state if record is not None and record.sample is not None else ""
        if state == "T":
            return f"{late}: its process is stopped"
        if state == "D":
            return f"{late}: its process waits for a disk or the network"
        why = "its interpreter is held by native code, or its process is stopped"
        if isinstance(question.about, ReadStacks):
            return f"{late}: {why}"
        return f"{late}: {why}, or what it was asked takes it longer"

    def _end_if_complete(self, question_id: str) -> None:
        question = self._open[question_id]
        if question.waiting:
            return
        del self._open[question_id]
        answers, problems = sorted(question.answers.items()), sorted(question.problems.items())
        question.on_answered(Answers(dict(answers), dict(problems)))


def _bound(timeout_s: float) -> float:
    """Bring what a client asks for within the limits; what is no number counts as the least."""
    least, most = TIMEOUTS_S
    return min(timeout_s, most) if timeout_s > least else least


def _why_absent(engine: EngineRecord) -> str:
    if engine.is_present:
        return "it is still starting"
    return f"it is lost: {engine.reason}" if engine.reason else "it has left"
