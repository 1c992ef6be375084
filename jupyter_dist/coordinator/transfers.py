"""Pushes and pulls: objects pass through as frames, never decoded here."""

from collections.abc import Sequence

from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    FetchObject,
    ObjectFetched,
    ObjectPulled,
    ObjectsPushed,
    ObjectsStored,
    PullObject,
    PushObjects,
    StoreObjects,
)


class Transfer:
    """One push or pull under way; a piece of Work for the fence."""

    def __init__(
        self,
        client: bytes,
        request: PushObjects | PullObject,
        buffers: list[Frame],
        roster: Roster,
        outbox: Outbox,
    ) -> None:
        self.client = client
        self.request_id = request.request_id
        self.ranks = request.ranks or tuple(range(roster.world_size))
        self._request = request
        self._buffers = buffers
        self._roster = roster
        self._outbox = outbox
        self._waiting: set[int] = set()
        self._problems: dict[int, str] = {}
        self._fetched: dict[int, Sequence[Frame]] = {}
        self._has_answered = False

    @property
    def is_over(self) -> bool:
        """Every rank has answered, and the client was told."""
        return self._has_answered

    def start(self, now_s: float) -> None:
        """Send it to its ranks."""
        self._waiting = set(self.ranks)
        request = self._request
        for rank in self.ranks:
            self._roster.start_work(rank, "", now_s)
            if isinstance(request, PushObjects):
                store = StoreObjects(self.request_id, request.names, request.frame_counts)
                self._outbox.to_engine(rank, store, self._buffers)
            else:
                self._outbox.to_engine(rank, FetchObject(self.request_id, request.name))

    def on_answer(self, answer: ObjectsStored | ObjectFetched, buffers: list[Frame]) -> None:
        """Take in a rank's answer."""
        if answer.request_id != self.request_id or answer.rank not in self._waiting:
            return
        self._waiting.discard(answer.rank)
        if answer.problem:
            self._problems[answer.rank] = answer.problem
        elif isinstance(answer, ObjectFetched):
            self._fetched[answer.rank] = buffers

    def on_lost(self, rank: int, reason: str) -> None:
        """Take in that a rank is gone."""
        if rank in self._waiting:
            self._waiting.discard(rank)
            self._problems[rank] = f"rank {rank} is lost: {reason}"

    def tick(self, now_s: float) -> None:
        """Answer the client once every rank has."""
        del now_s
        if self._waiting or self._has_answered:
            return
        self._has_answered = True
        if isinstance(self._request, PushObjects):
            self._outbox.to_client(self.client, ObjectsPushed(self.request_id, self._problems))
            return
        ranks = tuple(sorted(self._fetched))
        counts = tuple(len(self._fetched[rank]) for rank in ranks)
        frames = [frame for rank in ranks for frame in self._fetched[rank]]
        self._outbox.to_client(
            self.client, ObjectPulled(self.request_id, ranks, counts, self._problems), frames
        )
