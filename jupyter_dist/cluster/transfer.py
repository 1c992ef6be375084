"""Objects on their way: large ones in pieces, so that it is known how much has arrived."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import TypeVar

from msgspec.structs import replace

from jupyter_dist.cluster.connection.connection import Answer, Connection, raise_refusal
from jupyter_dist.cluster.connection.queued_request import CANCELLED_WHILE_QUEUED, OnStage
from jupyter_dist.cluster.spec.checks import WantedRanks
from jupyter_dist.errors import TransferError, UsageError
from jupyter_dist.model.hosts.rank import NAMES_OF_RANKS
from jupyter_dist.model.transfer.pieces import PIECES_FROM_BYTES, WINDOW_PIECES, Assembly, cut
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CellWaiting,
    ObjectPulled,
    ObjectsPushed,
    PieceTaken,
    PulledPiece,
    PullObject,
    PushObjects,
    Refused,
    SendPiece,
    ToClient,
    TransferMoved,
    WithdrawCell,
)
from jupyter_dist.protocol.objects import pack, raise_problems, split_frames, unpack

OnMoved = Callable[[TransferMoved], None]
TELL_AFTER_S = 0.5
"""What is over sooner needs no progress."""
TELL_INTERVAL_S = 0.2
END_PATIENCE_S = 12.0
"""The coordinator ends an interrupted push or pull in 7 s, with ranks that do not answer too."""
Got = TypeVar("Got")


class ProgressThrottle:
    """Passes on how far something is: not at once, and not too often."""

    def __init__(self, request_id: str, on_moved: OnMoved | None) -> None:
        self._request_id = request_id
        self._on_moved = on_moved
        self._next_s = monotonic() + TELL_AFTER_S

    def tell(self, moved_bytes: int, total_bytes: int, where: str) -> None:
        """Say how much has arrived, if it is time."""
        self.pass_on(TransferMoved(self._request_id, moved_bytes, total_bytes, where))

    def pass_on(self, moved: TransferMoved) -> None:
        """Say what the coordinator has said, if it is time."""
        if self._on_moved is not None and monotonic() >= self._next_s:
            self._next_s = monotonic() + TELL_INTERVAL_S
            self._on_moved(moved)


class ObjectTransfer:
    """One push or pull at a time, on a line that is its own meanwhile."""

    def __init__(
        self, line: Connection, on_word: OnStage | None = None, on_moved: OnMoved | None = None
    ) -> None:
        self._connection = line
        self._on_word = on_word
        self._on_moved = on_moved
        self._request_id = ""
        self._teller = ProgressThrottle("", None)
        self._assembly = Assembly()
        self._has_ended = False
        """The answer has come."""

    def push(
        self, objects: Mapping[str, object], ranks: WantedRanks, timeout_s: float | None = None
    ) -> None:
        """Put objects into the ranks' namespaces under their names; raises TransferError.

        Ctrl-C takes them back, or interrupts ranks.
        """
        _check_names(objects)
        packed = [pack(name, value) for name, value in objects.items()]
        counts = tuple(len(frames) for frames in packed)
        buffers = [frame for frames in packed for frame in frames]
        sizes = tuple(memoryview(buffer).nbytes for buffer in buffers)
        request_id = self._connection.new_request_id()
        request = PushObjects(request_id, tuple(objects), counts, ranks, timeout_s=timeout_s)

        def send() -> ObjectsPushed:
            if sum(sizes) < PIECES_FROM_BYTES:
                self._connection.send(request, buffers)
            else:
                self._connection.send(replace(request, sizes=sizes))
                self._send_pieces(buffers, sum(sizes))
            return self._await(ObjectsPushed)[0]

        raise_problems(self._with_line(request, send).problems)

    def pull(
        self, name: str, ranks: WantedRanks, timeout_s: float | None = None
    ) -> dict[int, object]:
        """Fetch one name from the ranks: rank -> object; raises TransferError.

        It is cancelled, or interrupted, as a push is.
        """
        request = PullObject(self._connection.new_request_id(), name, ranks, timeout_s)

        def fetch() -> tuple[ObjectPulled, Sequence[Frame]]:
            self._connection.send(request)
            answer, frames = self._await(ObjectPulled)
            return answer, self._assembly.give(answer.sizes) if answer.sizes else frames

        answer, frames = self._with_line(request, fetch)
        raise_problems(answer.problems)
        pieces = split_frames(frames, answer.frame_counts)
        found = {}
        for rank, piece in zip(answer.ranks, pieces, strict=True):
            try:
                found[rank] = unpack(name, piece)
            except TransferError as error:
                raise TransferError(f"rank {rank}: {error}") from error.__cause__
        return found

    def _with_line(self, request: PushObjects | PullObject, call: Callable[[], Got]) -> Got:
        # Outside the try: who waits for another thread has sent nothing yet.
        with self._connection.lock:
            self._request_id = request.request_id
            self._teller = ProgressThrottle(request.request_id, self._on_moved)
            self._has_ended = False
            try:
                return call()
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._take_back()) from None

    def _take_back(self) -> str:
        """Have it interrupted, wait until it has ended, and say how; a second Ctrl-C waits not."""
        self._connection.send(WithdrawCell(self._request_id))
        deadline_s = monotonic() + END_PATIENCE_S
        while not self._has_ended and monotonic() < deadline_s:
            for message, _frames in self._connection.receive():
                if getattr(message, "request_id", None) != self._request_id:
                    continue
                if isinstance(message, Refused):
                    return f"it is cancelled: {message.reason}"
                if isinstance(message, ObjectsPushed | ObjectPulled):
                    return _say_end(message)
                if isinstance(message, CellWaiting) and self._on_word is not None:
                    self._on_word(message.reason)
        return CANCELLED_WHILE_QUEUED

    def _send_pieces(self, buffers: Sequence[Frame], total_bytes: int) -> None:
        """Send piece by piece, so that no more are on their way than the window takes."""
        sizes = deque(piece.nbytes for piece in cut(buffers))
        pieces = enumerate(cut(buffers), 1)
        arrived_bytes = 0
        for number, piece in islice(pieces, WINDOW_PIECES):
            self._connection.send(SendPiece(self._request_id, number), [piece])
        while sizes:
            self._await(PieceTaken)
            for number, piece in islice(pieces, 1):
                self._connection.send(SendPiece(self._request_id, number), [piece])
            arrived_bytes += sizes.popleft()
            self._teller.tell(arrived_bytes, total_bytes, "to the coordinator")

    def _await(self, answer_type: type[Answer]) -> tuple[Answer, list[Frame]]:
        """Wait for an answer, and take in what comes before it; raises what a refusal names."""
        while True:
            for message, frames in self._connection.receive():
                if getattr(message, "request_id", None) not in (self._request_id, ""):
                    continue  # "": a refusal of something that could not be read
                if isinstance(message, answer_type):
                    self._has_ended = not isinstance(message, PieceTaken)
                    return message, frames
                raise_refusal(message)
                self._take(message, frames)

    def _take(self, message: ToClient, frames: Sequence[Frame]) -> None:
        match message:
            case CellWaiting():
                if self._on_word is not None:
                    self._on_word(message.reason)
            case TransferMoved():
                self._teller.pass_on(message)
            case PulledPiece():
                self._assembly.take(frames[0], message.frame_bytes)
                moved_bytes = self._assembly.taken_bytes
                self._teller.tell(moved_bytes, message.total_bytes, "from the coordinator")
            case _:
                return


def _check_names(names: Iterable[str]) -> None:
    """Raise UsageError for names that Python, or the cluster, does not leave free."""
    for name in names:
        if not str(name).isidentifier():
            raise UsageError(f"{name!r} is not a name that Python can use.")
        if name in NAMES_OF_RANKS:
            raise UsageError(
                f"{name!r} is given to each rank by the cluster. Push it under another name."
            )


def _say_end(ended: ObjectsPushed | ObjectPulled) -> str:
    """Return what became of a push or pull that was interrupted."""
    if not ended.problems:
        return "it had ended on every rank"
    problems = "; ".join(f"rank {rank}: {text}" for rank, text in sorted(ended.problems.items()))
    return f"{problems}; the other ranks are done" if isinstance(ended, ObjectsPushed) else problems
