"""Pushes and pulls: objects pass through as frames, never decoded here.

What is small goes to each engine as it is. What is large goes once to each host, whose engines
map it from memory: a big array pushed to eight ranks of a host travels once, not eight times.
"""

from collections.abc import Sequence

from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.protocol import host_agent_pb2 as pb
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

PLACED_FROM_BYTES = 1 << 20
"""From this size on a push goes by way of the hosts' memory."""


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
        self._sizes = tuple(memoryview(buffer).nbytes for buffer in buffers)
        self._roster = roster
        self._outbox = outbox
        self._placement_id = f"{client.hex()}-{request.request_id}"
        self._unplaced: dict[str, list[int]] = {}
        """Hosts, and their ranks, that have not confirmed a placement yet."""
        self._placed_hosts: set[str] = set()
        """Hosts in whose memory it lies or will lie: it is removed there even if nobody took it."""
        self._waiting: set[int] = set()
        self._problems: dict[int, str] = {}
        self._fetched: dict[int, Sequence[Frame]] = {}
        self._has_answered = False

    @property
    def is_over(self) -> bool:
        """Every rank has answered, and the client was told."""
        return self._has_answered

    def start(self, now_s: float) -> None:
        """Send it to its ranks, or first to their hosts."""
        self._waiting = set(self.ranks)
        # Only now: while it waited a rank may have moved to another host.
        self._unplaced = self._roster.group_by_host(self.ranks)
        for rank in self.ranks:
            self._roster.start_work(rank, "", now_s)
        if isinstance(self._request, PullObject):
            for rank in self.ranks:
                self._outbox.to_engine(rank, FetchObject(self.request_id, self._request.name))
            return
        for host, ranks in list(self._unplaced.items()):
            is_large = sum(self._sizes) >= PLACED_FROM_BYTES
            if is_large and self._outbox.place(host, self._placement_id, self._buffers):
                self._placed_hosts.add(host)
            else:
                self._store(ranks)

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
        for host in self._placed_hosts:
            self._outbox.remove_placed(host, self._placement_id)
        if isinstance(self._request, PushObjects):
            self._outbox.to_client(self.client, ObjectsPushed(self.request_id, self._problems))
            return
        ranks = tuple(sorted(self._fetched))
        counts = tuple(len(self._fetched[rank]) for rank in ranks)
        frames = [frame for rank in ranks for frame in self._fetched[rank]]
        self._outbox.to_client(
            self.client, ObjectPulled(self.request_id, ranks, counts, self._problems), frames
        )

    def _store(self, ranks: Sequence[int], path: str = "") -> None:
        request = self._request
        assert isinstance(request, PushObjects)
        store = StoreObjects(
            self.request_id,
            request.names,
            request.frame_counts,
            path,
            self._sizes if path else (),
        )
        for rank in ranks:
            if rank in self._waiting:
                self._outbox.to_engine(rank, store, () if path else self._buffers)
