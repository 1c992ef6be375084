"""Meetings of one cell: its ranks exchange objects, or compare what they call.

What ranks bring passes through as frames, never decoded here; nobody gets back its own.
"""

from collections.abc import Iterator, Sequence
from math import inf

from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.collective_size import MEETING_BYTES, describe_too_large, sent_bytes
from jupyter_dist.protocol.messages import (
    CollectiveCompleted,
    CollectiveFailed,
    JoinCollective,
    WithdrawCollective,
)
from jupyter_dist.protocol.objects import split_frames
from jupyter_dist.text.lists import group_pairs

FRAMEWORKS_TOPIC = "frameworks "
"""So begin the topics of meetings of frameworks."""
KINDS = ("all_gather", "gather", "broadcast", "scatter", "barrier")
ROOTED_KINDS = ("gather", "broadcast", "scatter")

MOST_MEETINGS = 4096
"""Of one cell, that some ranks have not come to."""
LATECOMERS_S = 0.5
"""So long a meeting that cannot be held waits for those that are on the way."""

Key = tuple[str, tuple[int, ...] | None]
"""Topic and ranks; None: all that run the cell."""
Share = dict[int, Sequence[Frame]]
"""What one rank gets, by who brought it."""


class ControlCollective:
    """Who is there, with what; or why it cannot take place."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = ranks
        self.members = frozenset(ranks)
        self.missing = set(ranks)
        """Ranks that have not come."""
        self.there: dict[int, JoinCollective] = {}
        self.frames: dict[int, list[Frame]] = {}
        self.bytes_to_send = 0
        self.first_deadline_s = inf
        self.first_timeout_s = inf
        """Of the one whose deadline comes first."""
        self.failure: CollectiveFailed | None = None
        """What all are told that come from now on."""
        self.is_split = False
        """Those that are there mean different things."""
        self.doubtful_since_s = inf
        """When it was first known that it cannot be held."""

    def admit(self, message: JoinCollective, frames: list[Frame], now_s: float) -> None:
        """Let a rank in."""
        first = next(iter(self.there.values()), message)  # who differed from it has split it
        self.is_split |= _terms(message) != _terms(first)
        self.missing.discard(message.rank)
        self.there[message.rank] = message
        self.frames[message.rank] = frames
        nbytes = sum(memoryview(frame).nbytes for frame in frames)
        self.bytes_to_send += sent_bytes(
            message.kind, nbytes, len(self.ranks), message.rank, message.root
        )
        if now_s + message.timeout_s < self.first_deadline_s:
            self.first_deadline_s = now_s + message.timeout_s
            self.first_timeout_s = message.timeout_s


class ControlCollectives:
    """The meetings of one cell; they end with it."""

    def __init__(self, cell_id: str, ranks: Sequence[int], sender: Sender, held: HeldTime) -> None:
        self._cell_id = cell_id
        self._ranks = ranks
        self._sender, self._held = sender, held
        self._collectives: dict[Key, ControlCollective] = {}
        """Those that some wait in, and those that failed before all had come."""
        self._finished: dict[int, str] = {}
        """Ranks that have finished the cell, with how topics begin that they will not come to."""

    def on_attend(self, message: JoinCollective, frames: list[Frame], now_s: float) -> None:
        """Let a rank take part; hold the meeting with the last one, or say why it fails."""
        key = (message.topic, message.ranks)
        collective = self._collectives.get(key) or self._begin(message.ranks)
        if problem := _find_mistake(message, collective, len(frames)):
            failure = CollectiveFailed(self._cell_id, message.topic, "refused", (), problem)
            self._sender.to_engine(message.rank, failure)
            return
        self._collectives[key] = collective
        if len(self._collectives) > MOST_MEETINGS:
            self._forget_oldest()
        if collective.failure is not None:
            collective.missing.discard(message.rank)
            self._sender.to_engine(message.rank, collective.failure)
            self._forget_if_told(key)
            return
        collective.admit(message, frames, self._held.clock_s(now_s))
        if collective.bytes_to_send > MEETING_BYTES:
            text = describe_too_large(message.claim, collective.bytes_to_send)
            self._fail(key, "refused", (), text)
        else:
            self._settle(key, now_s)

    def on_leave(self, message: WithdrawCollective) -> None:
        """Tell the others that a rank does not wait any longer."""
        key = (message.topic, message.ranks)
        collective = self._collectives.get(key)
        if (
            collective is None
            or collective.failure is not None
            or message.rank not in collective.there
        ):
            return
        self._fail(key, "left", (message.rank,), message.reason)

    def on_finished(self, rank: int, status: str, *, is_waited_for: bool = False) -> None:
        """Take in that a rank's cell has ended.

        Who finished well will not come any more. After another end all others are told to abort
        their communicator, and with it leave their meetings; with `is_waited_for` they are not,
        but for what frameworks do unasked: that would wait for ever.
        """
        if is_waited_for:
            self._finished[rank] = FRAMEWORKS_TOPIC
        elif status != "ok":
            self._collectives.clear()
        else:
            self._finished[rank] = ""

    def tick(self, now_s: float) -> None:
        """Fail the meetings that cannot be held, or have waited too long."""
        for key, collective in list(self._collectives.items()):
            if collective.failure is None:
                self._settle(key, now_s)
            clock_s = self._held.clock_s(now_s)
            if collective.failure is None and clock_s >= collective.first_deadline_s:
                claim = next(iter(collective.there.values())).claim
                text = f"did not come to {claim} within {collective.first_timeout_s:g} s"
                self._fail(key, "timeout", tuple(sorted(collective.missing)), text)

    @property
    def is_awaited(self) -> bool:
        """Some ranks wait in a meeting for others."""
        return any(collective.there for collective in self._collectives.values())

    def fail_all(self, rank: int, text: str) -> None:
        """Let all that wait know that a rank will not come, and why: words that follow its name."""
        for key, collective in list(self._collectives.items()):
            if collective.failure is None:
                self._fail(key, "left", (rank,), text)

    def _settle(self, key: Key, now_s: float) -> None:
        """Hold a meeting when all are there, or fail it when that cannot be any more.

        Who else is on the way may come first, so that all hear of it and the odd one is known.
        """
        collective = self._collectives[key]
        topic = key[0]
        gone = {
            rank
            for rank in collective.missing & self._finished.keys()
            if topic.startswith(self._finished[rank])
        }
        if not collective.is_split and not gone:
            if not collective.missing:
                self._hold(key)
            return
        collective.doubtful_since_s = min(collective.doubtful_since_s, now_s)
        is_late = now_s - collective.doubtful_since_s >= LATECOMERS_S
        if collective.missing > gone and not is_late:
            return
        if collective.is_split:
            self._fail(key, "mismatch", *_odd_ones(tuple(collective.there.values())))
        else:
            claim = next(iter(collective.there.values())).claim
            text = f"finished the cell and never called {claim}"
            self._fail(key, "absent", tuple(sorted(gone)), text)

    def _begin(self, ranks: tuple[int, ...] | None) -> ControlCollective:
        """Return a meeting of these ranks; of none if not all run this cell, each named once."""
        if ranks is None:
            return ControlCollective(sorted(self._ranks))
        once = set(ranks)
        can_meet = len(once) == len(ranks) and once.issubset(self._ranks)
        return ControlCollective(ranks if can_meet else ())

    def _hold(self, key: Key) -> None:
        """Give everybody what is theirs."""
        topic, _ranks = key
        for rank, share in _shares(self._collectives.pop(key)):
            counts = tuple(len(frames) for frames in share.values())
            held = CollectiveCompleted(self._cell_id, topic, tuple(share), counts)
            frames = [frame for brought in share.values() for frame in brought]
            self._sender.to_engine(rank, held, frames)

    def _fail(
        self,
        key: Key,
        kind: str,
        ranks: tuple[int, ...],
        text: str,
        others: tuple[int, ...] = (),
        others_text: str = "",
    ) -> None:
        """Tell all that are there, and later those that come."""
        failure = CollectiveFailed(self._cell_id, key[0], kind, ranks, text, others, others_text)
        collective = self._collectives[key]
        collective.failure = failure
        collective.frames.clear()
        told = set(collective.there) - ({*ranks} if kind == "left" else set())
        collective.there.clear()
        self._sender.to_engines(sorted(told), failure)
        self._forget_if_told(key)

    def _forget_oldest(self) -> None:
        """Forget the failed meeting that some rank has not come to for the longest time."""
        failed = (
            key for key, collective in self._collectives.items() if collective.failure is not None
        )
        if (key := next(failed, None)) is not None:
            del self._collectives[key]

    def _forget_if_told(self, key: Key) -> None:
        if not self._collectives[key].missing:
            del self._collectives[key]


def _find_mistake(message: JoinCollective, collective: ControlCollective, frame_count: int) -> str:
    """Return why a meeting cannot be meant; our own engines check before they ask."""
    ranks, kind = message.ranks, message.kind
    if message.rank not in collective.members:
        return f"rank {message.rank} cannot meet ranks {ranks}: not all run this cell, once."
    if kind not in KINDS or (kind in ROOTED_KINDS and message.root not in collective.members):
        return f"there is no {kind} with root {message.root} among ranks {ranks}."
    counts = message.frame_counts
    if sum(counts) != frame_count or min(counts, default=0) < 0:
        return f"{sum(counts)} frames were announced, {frame_count} came."
    is_scattered = kind == "scatter" and message.rank == message.root
    if is_scattered and len(counts) != len(collective.ranks):
        return f"frame counts {counts} do not fit the ranks {ranks}."
    return ""


def _terms(message: JoinCollective) -> tuple[str, str, str, int]:
    """Return what all must have in common."""
    return message.claim, message.agreement, message.kind, message.root


def _odd_ones(
    there: Sequence[JoinCollective],
) -> tuple[tuple[int, ...], str, tuple[int, ...], str]:
    """Tell the fewest from the most, each with their call; of equally many the higher ranks."""
    in_order = sorted(there, key=lambda each: each.rank)
    sides = group_pairs((_terms(message), message) for message in in_order)
    most, *_others, fewest = sorted(sides.values(), key=len, reverse=True)
    odd, majority = (tuple(each.rank for each in side) for side in (fewest, most))
    return odd, _placed(fewest[0]), majority, _placed(most[0])


def _placed(message: JoinCollective) -> str:
    return f"{message.claim} at {message.site}" if message.site else message.claim


def _shares(collective: ControlCollective) -> Iterator[tuple[int, Share]]:
    """Yield each rank of a meeting what the others have brought for it."""
    first = next(iter(collective.there.values()))
    root, brought = first.root, collective.frames
    pieces: list[list[Frame]] = []
    if first.kind == "scatter":
        pieces = split_frames(brought[root], collective.there[root].frame_counts)
    for index, rank in enumerate(collective.ranks):
        share: Share = {}
        if first.kind == "all_gather" or (first.kind == "gather" and rank == root):
            share = {other: brought[other] for other in collective.ranks}
        elif first.kind == "broadcast":
            share = {root: brought[root]}
        elif first.kind == "scatter":
            share = {root: pieces[index]}
        share.pop(rank, None)
        yield rank, share
