"""What a push and a pull have in common: ranks are busy with an object until they have answered."""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import assert_never

from jupyter_dist.coordinator.cells.cell_run import CellParts
from jupyter_dist.coordinator.cells.interruption import Abort, Cause, Interruption, find_places
from jupyter_dist.coordinator.observation.rank_queries import Answers, RankQueries
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.sender import ARE_YOU_IDLE
from jupyter_dist.errors import WireError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CellNote,
    CellWaiting,
    FetchedPiece,
    ObjectFetched,
    ObjectsStored,
    PullObject,
    PushObjects,
    RankFinished,
    ReadStacks,
    ToEngine,
    TransferMoved,
)
from jupyter_dist.protocol.unreadable import kind_of
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.sizes import without_measures

TELL_AFTER_S = 0.5
TELL_INTERVAL_S = 0.2
"""Shortest time between two words on how far it is."""
NAME_AFTER_S = 2.0
"""A rank that has not finished with an object after this time is named."""
ASK_AFTER_S = 0.8
"""It is asked before where it is, so that the first word has the place."""
ASK_INTERVAL_S = 3.0
ASK_TIMEOUT_S = 1.0
SAY_AGAIN_S = 10.0

FromTransfer = ObjectsStored | ObjectFetched | FetchedPiece
"""What ranks say in a push or a pull."""


class Transfer:
    """One push or pull under way; a piece of Work for the fence."""

    label: str
    """What is said of ranks that are busy with it."""

    def __init__(
        self,
        client: bytes,
        request: PushObjects | PullObject,
        transfer_id: str,
        parts: CellParts,
        doing: str,
    ) -> None:
        """Take a request, and what ranks do with it: `packing` or `rebuilding`.

        `transfer_id` is what ranks and agents know it by: request ids are a client's own.
        """
        self.client = client
        self.request_id = request.request_id
        self.ranks = request.ranks or tuple(range(parts.roster.world_size))
        self._timeout_s = request.timeout_s
        self._id = transfer_id
        self._roster, self._sender, self._held = parts.roster, parts.sender, parts.held.time
        self._interruption = Interruption(
            transfer_id, request.timeout_s, parts.roster, parts.sender, parts.questions
        )
        self._watch = TransferWatch(doing, parts.questions)
        self._waiting: set[int] = set()
        self._problems: dict[int, str] = {}
        self.is_over = False
        """Every rank has answered, and the client was told."""
        self._next_word_s = self._now_s = 0.0

    def _begin(self) -> None:
        """Send it to its ranks, or first to their hosts."""
        raise NotImplementedError

    def _describe(self, of_ranks: str) -> TransferMoved:
        """Return how far it is; `of_ranks` says how many ranks have answered."""
        raise NotImplementedError

    def _hand_over(self) -> None:
        """Answer the client."""
        raise NotImplementedError

    @property
    def note(self) -> str:
        """Which ranks are busy with it for long; empty: none."""
        return self._watch.note

    def start(self, now_s: float) -> None:
        """Begin with ranks that are all idle."""
        self._now_s, self._next_word_s = now_s, now_s + TELL_AFTER_S
        self._waiting = set(self.ranks)
        engines = self._roster.engines
        for rank in self.ranks:
            engines[rank].start_work(self.label, now_s)
        self._interruption.start(now_s)
        self._begin()

    def _order(self, ranks: Iterable[int], order: ToEngine, buffers: Sequence[Frame] = ()) -> None:
        """Have ranks begin with it, but for those that are waited for no longer."""
        targets = [rank for rank in ranks if rank in self._waiting]
        if not buffers:
            self._sender.to_engines(targets, order)
        for rank in targets if buffers else ():
            self._sender.to_engine(rank, order, buffers)
        self._watch.begin(targets, self._now_s)

    def _keep(self, answer: ObjectFetched, buffers: list[Frame]) -> None:
        """Take in what a rank gives, of which nothing is expected otherwise."""
        raise NotImplementedError

    def _keep_piece(self, piece: FetchedPiece, frames: list[Frame]) -> None:
        """Take in a piece of it."""
        raise NotImplementedError

    def on_answer(self, answer: FromTransfer, buffers: list[Frame]) -> None:
        """Take in a rank's answer, or a piece of it."""
        if answer.request_id != self._id or answer.rank not in self._waiting:
            return
        if isinstance(answer, FetchedPiece):
            self._keep_piece(answer, buffers)
            return
        self._waiting.discard(answer.rank)
        if answer.problem:
            self._problems[answer.rank] = self._with_limit(answer.problem)
        elif isinstance(answer, ObjectFetched):
            self._keep(answer, buffers)

    def on_unreadable(self, rank: int, problem: WireError) -> None:
        """Take in that a rank has sent what nobody can read; it may have been its answer."""
        if rank in self._waiting and kind_of(problem) in ("", "ObjectsStored", "ObjectFetched"):
            self._waiting.discard(rank)
            self._problems[rank] = f"its answer could not be read: {problem}"
            self._sender.to_engine(rank, ARE_YOU_IDLE)

    def on_lost(self, rank: int, reason: str) -> None:
        """Take in that a rank is gone."""
        if rank in self._waiting:
            self._waiting.discard(rank)
            self._problems[rank] = f"it is lost: {reason}"

    def interrupt(self, ranks: set[int], request_id: str, now_s: float) -> tuple[int, ...]:
        """Send SIGINT to the ranks that are busy with it; give them."""
        busy = ranks & self._waiting & set(self._roster.ranks_in(EngineState.BUSY))
        targets = tuple(sorted(busy))
        for rank in busy - self._watch.begun:
            self._release(rank)
            self._problems[rank] = "interrupted before it came there"
        signalled = tuple(rank for rank in targets if rank in self._waiting)
        self._interruption.send(Cause.PERSON, signalled, request_id, now_s)
        return targets

    def tick(self, now_s: float) -> None:
        """Answer the client once every rank has; until then say how far it is."""
        if self.is_over:
            return
        self._now_s = now_s
        self._look_after(now_s)
        if not self._waiting:
            self.is_over = True
            self._hand_over()
        elif now_s >= self._next_word_s:
            self._next_word_s = now_s + TELL_INTERVAL_S
            answered = len(self.ranks) - len(self._waiting)
            moved = self._describe(f"{answered} of {len(self.ranks)} ranks")
            self._sender.to_client(self.client, moved)

    def _look_after(self, now_s: float) -> None:
        """Look at the time limit, at unanswered interrupts, and at ranks that take long."""
        for event in self._interruption.tick(self._waiting, now_s, self._held):
            match event:
                case RankFinished():
                    self._release(event.rank)
                    self._problems[event.rank] = event.error.evalue if event.error else ""
                case CellNote():
                    self._say(event.text)
                case Abort():
                    continue  # no rank waits for another one in a push or pull
                case _:
                    assert_never(event)
        if note := self._watch.look(self._waiting, now_s):
            self._say(f"{self.label}: {note}")

    def _say(self, text: str) -> None:
        self._sender.to_client(self.client, CellWaiting(self.request_id, text))

    def _release(self, rank: int) -> None:
        """Wait for a rank no longer; it is idle if nothing was sent to it."""
        self._waiting.discard(rank)
        if rank not in self._watch.begun:
            self._roster[rank].end_work()

    def _with_limit(self, problem: str) -> str:
        if Cause.LIMIT not in self._interruption.causes:
            return problem
        return f"{problem} (the time limit of {self._timeout_s:g} s is over)"


class TransferWatch:
    """What is known of the ranks that pack or rebuild objects."""

    def __init__(self, doing: str, questions: RankQueries) -> None:
        """Take what ranks do: `packing` or `rebuilding`."""
        self.note = ""
        """A sentence that names the ranks that take long; empty if there are none."""
        self._doing = doing
        self._queries = questions
        self._since_s: dict[int, float] = {}
        self._places: dict[int, str] = {}
        self._is_asking = False
        self._next_ask_s = 0.0
        self._said = ""
        self._said_s = 0.0

    @property
    def begun(self) -> AbstractSet[int]:
        """Ranks that were sent their part."""
        return self._since_s.keys()

    def begin(self, ranks: Collection[int], now_s: float) -> None:
        """Note that ranks were sent their part."""
        self._since_s |= dict.fromkeys(ranks, now_s)

    def look(self, waiting: Collection[int], now_s: float) -> str:
        """Find who is late; return the note if it is to be told now."""
        busy_s = {
            rank: now_s - since_s
            for rank, since_s in sorted(self._since_s.items())
            if rank in waiting
        }
        self._ask([rank for rank in busy_s if busy_s[rank] >= ASK_AFTER_S], now_s)
        late = [rank for rank in busy_s if busy_s[rank] >= NAME_AFTER_S]
        self.note = "; ".join(self._describe(late, now_s))
        said = without_measures(self.note)
        if not said or (said == self._said and now_s - self._said_s < SAY_AGAIN_S):
            return ""
        self._said, self._said_s = said, now_s
        return self.note

    def _describe(self, late: Collection[int], now_s: float) -> list[str]:
        by_place = group_pairs((self._places.get(rank, ""), rank) for rank in late)
        texts = []
        for place, ranks in by_place.items():
            verb, its = fit(ranks, ("has", "it"), ("have", "them"))
            since_s = min(self._since_s[rank] for rank in ranks)
            texts.append(
                f"{name_ranks(ranks)} {verb} been {self._doing} it for {now_s - since_s:.0f} s"
                f"{place} (%dist_interrupt stops {its})"
            )
        return texts

    def _ask(self, late: Collection[int], now_s: float) -> None:
        if not late or self._is_asking or now_s < self._next_ask_s:
            return
        self._next_ask_s = now_s + ASK_INTERVAL_S
        self._is_asking = True
        self._queries.ask(tuple(late), ReadStacks(), ASK_TIMEOUT_S, now_s, self._take)

    def _take(self, answers: Answers) -> None:
        self._is_asking = False
        self._places |= find_places(answers)
