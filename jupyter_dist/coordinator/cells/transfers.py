"""Pushes and pulls: objects pass through as frames, never decoded here.

What is small goes to each engine as it is. What is large goes once to each host, whose engines
map it from memory: a big array pushed to eight ranks of a host travels once, not eight times.
"""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import assert_never

from msgspec.structs import replace

from jupyter_dist.coordinator.cells.cell_run import CellParts
from jupyter_dist.coordinator.cells.interruption import Abort, Cause, Interruption, find_places
from jupyter_dist.coordinator.observation.rank_queries import Answers, RankQueries
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.sender import ARE_YOU_IDLE
from jupyter_dist.errors import WireError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.transfer.pieces import PIECES_FROM_BYTES, cut, join
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CellNote,
    CellWaiting,
    FetchObject,
    ObjectFetched,
    ObjectPulled,
    ObjectsPushed,
    ObjectsStored,
    PulledPiece,
    PullObject,
    PushObjects,
    RankFinished,
    ReadStacks,
    StoreObjects,
    TransferMoved,
)
from jupyter_dist.protocol.unreadable import kind_of
from jupyter_dist.text.lists import group_pairs, name_pull, name_push, name_some
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.sizes import without_measures

PLACED_FROM_BYTES = 1 << 20
"""From this size on a push goes by way of the hosts' memory."""
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


class Transfer:
    """One push or pull under way; a piece of Work for the fence."""

    def __init__(
        self,
        client: bytes,
        request: PushObjects | PullObject,
        buffers: list[Frame],
        transfer_id: str,
        parts: CellParts,
    ) -> None:
        """Take a request; `buffers` are the frames of a push, or the pieces they have come in.

        `transfer_id` is what ranks and agents know it by: request ids are a client's own.
        """
        self.client = client
        self.request_id = request.request_id
        self.ranks = request.ranks or tuple(range(parts.roster.world_size))
        self.label, doing = name_pull(getattr(request, "name", "")), "packing"
        """What is said of ranks that are busy with it."""
        if isinstance(request, PushObjects):
            self.label, doing = name_push(request.names), "rebuilding"
        self._request = request
        self._id = transfer_id
        self._buffers = buffers
        announced = request.sizes if isinstance(request, PushObjects) else ()
        self._is_in_pieces = bool(announced)
        self._sizes = announced or tuple(memoryview(buffer).nbytes for buffer in buffers)
        self._roster = parts.roster
        self._sender = parts.sender
        self._interruption = Interruption(
            transfer_id, request.timeout_s, parts.roster, parts.sender, parts.questions
        )
        self._watch = TransferWatch(doing, parts.questions)
        self._placement_id = f"{client.hex()}-{request.request_id}"
        self._unplaced: dict[str, list[int]] = {}
        """Hosts, and their ranks, that have not confirmed a placement yet."""
        self._placed_bytes: dict[str, int] = {}
        """Hosts in whose memory it lies or will lie, with how much has arrived there.

        It is removed there even if nobody took it.
        """
        self._waiting: set[int] = set()
        self._problems: dict[int, str] = {}
        self._fetched: dict[int, Sequence[Frame]] = {}
        self.is_over = False
        """Every rank has answered, and the client was told."""
        self._next_word_s = self._now_s = 0.0

    @property
    def note(self) -> str:
        """Which ranks are busy with it for long; empty: none."""
        return self._watch.note

    def start(self, now_s: float) -> None:
        """Send it to its ranks, or first to their hosts."""
        self._next_word_s = now_s + TELL_AFTER_S
        self._waiting = set(self.ranks)
        # Only now: while it waited a rank may have moved to another host.
        self._unplaced = self._roster.group_by_host(self.ranks)
        for rank in self.ranks:
            self._roster.start_work(rank, self.label, now_s)
        self._interruption.start(now_s)
        self._now_s = now_s
        if isinstance(self._request, PullObject):
            for rank in self.ranks:
                self._sender.to_engine(rank, FetchObject(self._id, self._request.name))
                self._watch.begin(rank, now_s)
            return
        for host, ranks in list(self._unplaced.items()):
            is_large = sum(self._sizes) >= PLACED_FROM_BYTES
            if is_large and self._sender.place(host, self._placement_id, self._buffers):
                self._placed_bytes[host] = 0
            else:
                self._store(ranks)

    def on_place_taken(self, host: str, taken: pb.PlaceTaken) -> None:
        """Note how much has arrived in a host's memory."""
        if taken.request_id == self._placement_id and host in self._placed_bytes:
            self._placed_bytes[host] = taken.taken_bytes

    def on_placed(self, host: str, placed: pb.Placed) -> None:
        """Let a host's engines take what now lies in its memory; without room, send it to each."""
        if placed.request_id != self._placement_id:
            return
        ranks = self._unplaced.pop(host, [])
        if placed.problem:
            self._store(ranks)
            return
        self._store(ranks, placed.path)

    def on_answer(self, answer: ObjectsStored | ObjectFetched, buffers: list[Frame]) -> None:
        """Take in a rank's answer."""
        if answer.request_id != self._id or answer.rank not in self._waiting:
            return
        self._finish(answer.rank)
        if answer.problem:
            self._problems[answer.rank] = self._with_limit(answer.problem)
        elif isinstance(answer, ObjectFetched):
            self._fetched[answer.rank] = buffers

    def on_unreadable(self, rank: int, problem: WireError) -> None:
        """Take in that a rank has sent what nobody can read; it may have been its answer."""
        if rank in self._waiting and kind_of(problem) in ("", "ObjectsStored", "ObjectFetched"):
            self._finish(rank)
            self._problems[rank] = f"its answer could not be read: {problem}"
            self._sender.to_engine(rank, ARE_YOU_IDLE)

    def on_lost(self, rank: int, reason: str) -> None:
        """Take in that a rank is gone."""
        if rank in self._waiting:
            self._finish(rank)
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
        if self._waiting:
            if now_s >= self._next_word_s:
                self._next_word_s = now_s + TELL_INTERVAL_S
                self._sender.to_client(self.client, self._describe())
            return
        self.is_over = True
        for host in self._placed_bytes:
            self._sender.remove_placed(host, self._placement_id)
        if isinstance(self._request, PushObjects):
            self._sender.to_client(self.client, ObjectsPushed(self.request_id, self._problems))
            return
        self._hand_over()

    def _look_after(self, now_s: float) -> None:
        """Look at the time limit, at unanswered interrupts, and at ranks that take long."""
        for event in self._interruption.tick(self._waiting, now_s):
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
        self._finish(rank)
        if rank not in self._watch.begun:
            self._roster.end_work(rank)

    def _finish(self, rank: int) -> None:
        self._waiting.discard(rank)
        self._interruption.end(rank)

    def _with_limit(self, problem: str) -> str:
        if Cause.LIMIT not in self._interruption.causes:
            return problem
        return f"{problem} (the time limit of {self._request.timeout_s:g} s is over)"

    def _hand_over(self) -> None:
        """Give the client what it pulled, in pieces when that is much."""
        ranks = tuple(sorted(self._fetched))
        counts = tuple(len(self._fetched[rank]) for rank in ranks)
        frames = [frame for rank in ranks for frame in self._fetched[rank]]
        sizes = tuple(memoryview(frame).nbytes for frame in frames)
        pulled = ObjectPulled(self.request_id, ranks, counts, self._problems)
        if sum(sizes) < PIECES_FROM_BYTES:
            self._sender.to_client(self.client, pulled, frames)
            return
        for frame, size in zip(frames, sizes, strict=True):
            word = PulledPiece(self.request_id, size, sum(sizes))
            for piece in cut([frame]):
                self._sender.to_client(self.client, word, [piece])
        self._sender.to_client(self.client, replace(pulled, sizes=sizes))

    def _describe(self) -> TransferMoved:
        """Return how far it is: in the memory of the slowest host, else by ranks that have it."""
        answered = len(self.ranks) - len(self._waiting)
        of_ranks = f"{answered} of {len(self.ranks)} ranks"
        if isinstance(self._request, PullObject):
            moved = sum(
                memoryview(frame).nbytes for each in self._fetched.values() for frame in each
            )
            return TransferMoved(self.request_id, moved, 0, f"from {of_ranks}")
        total = sum(self._sizes)
        under_way = [host for host in self._unplaced if host in self._placed_bytes]
        if under_way:
            moved = min(self._placed_bytes[host] for host in under_way)
            return TransferMoved(self.request_id, moved, total, f"to {name_some(under_way)}")
        moved = total * answered // len(self.ranks)
        return TransferMoved(self.request_id, moved, total, f"taken in by {of_ranks}")

    def _store(self, ranks: Sequence[int], path: str = "") -> None:
        request = self._request
        assert isinstance(request, PushObjects)
        store = StoreObjects(
            self._id,
            request.names,
            request.frame_counts,
            path,
            self._sizes if path else (),
        )
        if not path and self._is_in_pieces:
            self._buffers = list(join(self._buffers, self._sizes))
            self._is_in_pieces = False
        for rank in ranks:
            if rank in self._waiting:
                self._sender.to_engine(rank, store, () if path else self._buffers)
                self._watch.begin(rank, self._now_s)


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

    def begin(self, rank: int, now_s: float) -> None:
        """Note that a rank was sent its part."""
        self._since_s[rank] = now_s

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
