"""Meetings of one cell: its ranks exchange objects, or compare what they call.

What ranks bring passes through as frames, never decoded here; nobody gets back its own.
"""

from collections.abc import Iterator, Sequence
from math import inf

from jupyter_dist.coordinator.outbox import Outbox
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.meeting_size import MEETING_BYTES, describe_too_large, sent_bytes
from jupyter_dist.protocol.messages import Attend, LeaveMeeting, MeetingFailed, MeetingHeld
from jupyter_dist.protocol.objects import split_frames

FRAMEWORKS_TOPIC = "frameworks "
"""So begin the topics of meetings of frameworks."""
KINDS = ("all_gather", "gather", "broadcast", "scatter", "barrier")
ROOTED_KINDS = ("gather", "broadcast", "scatter")

MOST_MEETINGS = 4096
"""Of one cell, that some ranks have not come to."""
LATECOMERS_S = 0.5
"""So long a meeting that cannot be held waits for those that are on the way."""

Key = tuple[str, tuple[int, ...]]
"""Topic and ranks."""
Share = dict[int, Sequence[Frame]]
"""What one rank gets, by who brought it."""


class Meeting:
    """Who is there, with what; or why it cannot take place."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.missing = set(ranks)
        """Ranks that have not come."""
        self.there: dict[int, Attend] = {}
        self.frames: dict[int, list[Frame]] = {}
        self.bytes_to_send = 0
        self.first_deadline_s = inf
        self.first_timeout_s = inf
        """Of the one whose deadline comes first."""
        self.failure: MeetingFailed | None = None
        """What all are told that come from now on."""
        self.is_split = False
        """Those that are there mean different things."""
        self.doubtful_since_s = inf
        """When it was first known that it cannot be held."""

    def admit(self, message: Attend, frames: list[Frame], now_s: float) -> None:
        """Let a rank in."""
        first = next(iter(self.there.values()), message)  # who differed from it has split it
        self.is_split |= _terms(message) != _terms(first)
        self.missing.discard(message.rank)
        self.there[message.rank] = message
        self.frames[message.rank] = frames
        nbytes = sum(memoryview(frame).nbytes for frame in frames)
        self.bytes_to_send += sent_bytes(
            message.kind, nbytes, message.ranks, message.rank, message.root
        )
        if now_s + message.timeout_s < self.first_deadline_s:
            self.first_deadline_s = now_s + message.timeout_s
            self.first_timeout_s = message.timeout_s


class Meetings:
    """The meetings of one cell; they end with it."""

    def __init__(self, cell_id: str, ranks: Sequence[int], outbox: Outbox) -> None:
        self._cell_id = cell_id
        self._ranks = frozenset(ranks)
        self._outbox = outbox
        self._meetings: dict[Key, Meeting] = {}
        """Those that some wait in, and those that failed before all had come."""
        self._finished: dict[int, str] = {}
        """Ranks that have finished the cell, with how topics begin that they will not come to."""

    def on_attend(self, message: Attend, frames: list[Frame], now_s: float) -> None:
        """Let a rank take part; hold the meeting with the last one, or say why it fails."""
        problem = self._find_mistake(message, len(frames))
        if problem:
            failure = MeetingFailed(self._cell_id, message.topic, "refused", (), problem)
            self._outbox.to_engine(message.rank, failure)
            return
        key = (message.topic, message.ranks)
        if key not in self._meetings:
            self._meetings[key] = Meeting(message.ranks)
        meeting = self._meetings[key]
        if len(self._meetings) > MOST_MEETINGS:
            self._forget_oldest()
        if meeting.failure is not None:
            meeting.missing.discard(message.rank)
            self._outbox.to_engine(message.rank, meeting.failure)
            self._forget_if_told(key)
            return
        meeting.admit(message, frames, now_s)
        if meeting.bytes_to_send > MEETING_BYTES:
            text = describe_too_large(message.claim, meeting.bytes_to_send)
            self._fail(key, "refused", (), text)
        else:
            self._settle(key, now_s)

    def on_leave(self, message: LeaveMeeting) -> None:
        """Tell the others that a rank does not wait any longer."""
        key = (message.topic, message.ranks)
        meeting = self._meetings.get(key)
        if meeting is None or meeting.failure is not None or message.rank not in meeting.there:
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
            self._meetings.clear()
        else:
            self._finished[rank] = ""

    def tick(self, now_s: float) -> None:
        """Fail the meetings that cannot be held, or have waited too long."""
        for key, meeting in list(self._meetings.items()):
            if meeting.failure is None:
                self._settle(key, now_s)
            if meeting.failure is None and now_s >= meeting.first_deadline_s:
                claim = next(iter(meeting.there.values())).claim
                text = f"did not come to {claim} within {meeting.first_timeout_s:g} s"
                self._fail(key, "timeout", tuple(sorted(meeting.missing)), text)

    @property
    def is_awaited(self) -> bool:
        """Some ranks wait in a meeting for others."""
        return any(meeting.there for meeting in self._meetings.values())

    def fail_all(self, rank: int, text: str) -> None:
        """Let all that wait know that a rank will not come, and why: words that follow its name."""
        for key, meeting in list(self._meetings.items()):
            if meeting.failure is None:
                self._fail(key, "left", (rank,), text)

    def _settle(self, key: Key, now_s: float) -> None:
        """Hold a meeting when all are there, or fail it when that cannot be any more.

        Who else is on the way may come first, so that all hear of it and the odd one is known.
        """
        meeting = self._meetings[key]
        topic = key[0]
        gone = {
            rank
            for rank in meeting.missing & self._finished.keys()
            if topic.startswith(self._finished[rank])
        }
        if not meeting.is_split and not gone:
            if not meeting.missing:
                self._hold(key)
            return
        meeting.doubtful_since_s = min(meeting.doubtful_since_s, now_s)
        is_late = now_s - meeting.doubtful_since_s >= LATECOMERS_S
        if meeting.missing > gone and not is_late:
            return
        if meeting.is_split:
            self._fail(key, "mismatch", *_odd_ones(tuple(meeting.there.values())))
        else:
            claim = next(iter(meeting.there.values())).claim
            text = f"finished the cell and never called {claim}"
            self._fail(key, "absent", tuple(sorted(gone)), text)

    def _find_mistake(self, message: Attend, frame_count: int) -> str:
        """Say why a meeting cannot be meant; our own engines check before they ask."""
        ranks = message.ranks
        is_begun = (message.topic, ranks) in self._meetings
        if message.rank not in ranks or not (is_begun or self._can_meet(ranks)):
            return f"rank {message.rank} cannot meet ranks {ranks}: not all run this cell, once."
        if message.kind not in KINDS or (
            message.kind in ROOTED_KINDS and message.root not in ranks
        ):
            return f"there is no {message.kind} with root {message.root} among ranks {ranks}."
        counts = message.frame_counts
        if sum(counts) != frame_count or min(counts, default=0) < 0:
            return f"{sum(counts)} frames were announced, {frame_count} came."
        is_scattered = message.kind == "scatter" and message.rank == message.root
        if is_scattered and len(counts) != len(ranks):
            return f"frame counts {counts} do not fit the ranks {ranks}."
        return ""

    def _can_meet(self, ranks: tuple[int, ...]) -> bool:
        """Tell whether all of them run this cell, and each is named once."""
        once = set(ranks)
        return len(once) == len(ranks) and self._ranks >= once

    def _hold(self, key: Key) -> None:
        """Give everybody what is theirs."""
        topic, _ranks = key
        for rank, share in _shares(self._meetings.pop(key)):
            counts = tuple(len(frames) for frames in share.values())
            held = MeetingHeld(self._cell_id, topic, tuple(share), counts)
            frames = [frame for brought in share.values() for frame in brought]
            self._outbox.to_engine(rank, held, frames)

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
        failure = MeetingFailed(self._cell_id, key[0], kind, ranks, text, others, others_text)
        meeting = self._meetings[key]
        meeting.failure = failure
        meeting.frames.clear()
        told = set(meeting.there) - ({*ranks} if kind == "left" else set())
        meeting.there.clear()
        self._outbox.to_engines(sorted(told), failure)
        self._forget_if_told(key)

    def _forget_oldest(self) -> None:
        """Forget the failed meeting that some rank has not come to for the longest time."""
        failed = (key for key, meeting in self._meetings.items() if meeting.failure is not None)
        if (key := next(failed, None)) is not None:
            del self._meetings[key]

    def _forget_if_told(self, key: Key) -> None:
        if not self._meetings[key].missing:
            del self._meetings[key]


def _terms(message: Attend) -> tuple[str, str, str, int]:
    """Give what all must have in common."""
    return message.claim, message.agreement, message.kind, message.root


def _odd_ones(
    there: Sequence[Attend],
) -> tuple[tuple[int, ...], str, tuple[int, ...], str]:
    """Tell the fewest from the most, each with their call; of equally many the higher ranks."""
    sides: dict[tuple[str, str, str, int], list[Attend]] = {}
    for message in sorted(there, key=lambda each: each.rank):
        sides.setdefault(_terms(message), []).append(message)
    most, *_others, fewest = sorted(sides.values(), key=len, reverse=True)
    text, majority_text = _placed(fewest[0]), _placed(most[0])
    if text == majority_text:
        text += " with other arguments"
    odd, majority = (tuple(each.rank for each in side) for side in (fewest, most))
    return odd, text, majority, majority_text


def _placed(message: Attend) -> str:
    return f"{message.claim} at {message.site}" if message.site else message.claim


def _shares(meeting: Meeting) -> Iterator[tuple[int, Share]]:
    """Give each rank of a meeting what the others have brought for it."""
    first = next(iter(meeting.there.values()))
    root, brought = first.root, meeting.frames
    pieces: list[list[Frame]] = []
    if first.kind == "scatter":
        pieces = split_frames(brought[root], meeting.there[root].frame_counts)
    for index, rank in enumerate(first.ranks):
        share: Share = {}
        if first.kind == "all_gather" or (first.kind == "gather" and rank == root):
            share = {other: brought[other] for other in first.ranks}
        elif first.kind == "broadcast":
            share = {root: brought[root]}
        elif first.kind == "scatter":
            share = {root: pieces[index]}
        share.pop(rank, None)
        yield rank, share
