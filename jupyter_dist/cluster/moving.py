"""Objects on their way: large ones in pieces, so that it is known how much has arrived."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import TypeVar

from msgspec.structs import replace

from jupyter_dist.cluster.fenced import TAKEN_BACK, OnStage
from jupyter_dist.cluster.line import Answer, Line, raise_refusal
from jupyter_dist.errors import TransferError, UsageError
from jupyter_dist.model.pieces import PIECES_FROM_BYTES, WINDOW_PIECES, Assembly, cut
from jupyter_dist.model.rank import NAMES_OF_RANKS
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


class Teller:
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


class Moving:
    """One push or pull at a time, on a line that is its own meanwhile."""

    def __init__(
        self, line: Line, on_word: OnStage | None = None, on_moved: OnMoved | None = None
    ) -> None:
        self._line = line
        self.new_request_id = line.new_request_id
        self._on_word = on_word
        self._on_moved = on_moved
        self._request_id = ""
        self._teller = Teller("", None)
        self._assembly = Assembly()
        self._has_ended = False
        """The answer has come."""

    def push(self, request: PushObjects, buffers: Sequence[Frame]) -> ObjectsPushed:
        """Send objects; Ctrl-C takes them back, or interrupts ranks. Raises what is refused."""
        sizes = tuple(memoryview(buffer).nbytes for buffer in buffers)

        def send() -> ObjectsPushed:
            if sum(sizes) < PIECES_FROM_BYTES:
                self._line.send(request, buffers)
            else:
                self._line.send(replace(request, sizes=sizes))
                self._send_pieces(buffers, sum(sizes))
            return self._await(ObjectsPushed)[0]

        return self._with_line(request, send)

    def pull(self, request: PullObject) -> tuple[ObjectPulled, Sequence[Frame]]:
        """Fetch objects, as frames; taken back, or interrupted, as a push is."""

        def fetch() -> tuple[ObjectPulled, Sequence[Frame]]:
            self._line.send(request)
            answer, frames = self._await(ObjectPulled)
            return answer, self._assembly.give(answer.sizes) if answer.sizes else frames

        return self._with_line(request, fetch)

    def _with_line(self, request: PushObjects | PullObject, call: Callable[[], Got]) -> Got:
        with self._line.lock:  # outside the try: who waits for another thread has sent nothing yet
            self._request_id = request.request_id
            self._teller = Teller(request.request_id, self._on_moved)
            self._has_ended = False
            try:
                return call()
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._take_back()) from None

    def _take_back(self) -> str:
        """Have it interrupted, wait until it has ended, and say how; a second Ctrl-C waits not."""
        self._line.send(WithdrawCell(self._request_id))
        deadline_s = monotonic() + END_PATIENCE_S
        while not self._has_ended and monotonic() < deadline_s:
            for message, _frames in self._line.receive():
                if getattr(message, "request_id", None) != self._request_id:
                    continue
                if isinstance(message, Refused):
                    return f"it is taken back: {message.reason}"
                if isinstance(message, ObjectsPushed | ObjectPulled):
                    return _say_end(message)
                if isinstance(message, CellWaiting) and self._on_word is not None:
                    self._on_word(message.reason)
        return TAKEN_BACK

    def _send_pieces(self, buffers: Sequence[Frame], total_bytes: int) -> None:
        """Send piece by piece, so that no more are on their way than the window takes."""
        sizes = deque(piece.nbytes for piece in cut(buffers))
        pieces = enumerate(cut(buffers), 1)
        arrived_bytes = 0
        for number, piece in islice(pieces, WINDOW_PIECES):
            self._line.send(SendPiece(self._request_id, number), [piece])
        while sizes:
            self._await(PieceTaken)
            for number, piece in islice(pieces, 1):
                self._line.send(SendPiece(self._request_id, number), [piece])
            arrived_bytes += sizes.popleft()
            self._teller.tell(arrived_bytes, total_bytes, "to the coordinator")

    def _await(self, answer_type: type[Answer]) -> tuple[Answer, list[Frame]]:
        """Wait for an answer, and take in what comes before it; raises what a refusal names."""
        while True:
            for message, frames in self._line.receive():
                if getattr(message, "request_id", None) not in (self._request_id, ""):
                    continue  # "": a refusal of something that could not be read
                if isinstance(message, answer_type):
                    self._has_ended = not isinstance(message, PieceTaken)
                    return message, frames
                raise_refusal(message)
                self._take(message, frames)

    def _take(self, message: ToClient, frames: Sequence[Frame]) -> None:
        """Take in what comes before the answer."""
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


def _say_end(ended: ObjectsPushed | ObjectPulled) -> str:
    """Say what became of a push or pull that was interrupted."""
    if not ended.problems:
        return "it had ended on every rank"
    problems = "; ".join(f"rank {rank}: {text}" for rank, text in sorted(ended.problems.items()))
    return f"{problems}; the other ranks are done" if isinstance(ended, ObjectsPushed) else problems


def push_objects(
    moving: Moving,
    objects: Mapping[str, object],
    ranks: tuple[int, ...] | None,
    timeout_s: float | None = None,
) -> None:
    """Put objects into the ranks' namespaces under their names; raises TransferError."""
    wrong = [name for name in objects if not str(name).isidentifier()]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a name that Python can use.")
    if own := [name for name in objects if name in NAMES_OF_RANKS]:
        raise UsageError(
            f"{own[0]!r} is given to each rank by the cluster. Push it under another name."
        )
    packed = [pack(name, value) for name, value in objects.items()]
    counts = tuple(len(frames) for frames in packed)
    request_id = moving.new_request_id()
    request = PushObjects(request_id, tuple(objects), counts, ranks, timeout_s=timeout_s)
    answer = moving.push(request, [frame for frames in packed for frame in frames])
    raise_problems(answer.problems)


def pull_object(
    moving: Moving, name: str, ranks: tuple[int, ...] | None, timeout_s: float | None = None
) -> dict[int, object]:
    """Fetch one name from the ranks: rank -> object; raises TransferError."""
    answer, frames = moving.pull(PullObject(moving.new_request_id(), name, ranks, timeout_s))
    raise_problems(answer.problems)
    pieces = split_frames(frames, answer.frame_counts)
    found = {}
    for rank, piece in zip(answer.ranks, pieces, strict=True):
        try:
            found[rank] = unpack(name, piece)
        except TransferError as error:
            raise TransferError(f"rank {rank}: {error}") from error.__cause__
    return found
