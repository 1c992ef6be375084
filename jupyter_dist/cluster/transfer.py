"""Objects on their way: large ones in files in memory, or in pieces where no memory is shared."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from time import monotonic
from typing import TypeVar

from msgspec.structs import replace

from jupyter_dist.cluster.connection.connection import Answer, Connection, raise_refusal
from jupyter_dist.cluster.connection.queued_request import CANCELLED_WHILE_QUEUED, OnStage
from jupyter_dist.cluster.pulled_objects import PulledObjects
from jupyter_dist.cluster.spec.checks import WantedRanks
from jupyter_dist.control.memory_file import make_or_none
from jupyter_dist.errors import TransferError, UsageError
from jupyter_dist.model.hosts.rank import NAMES_OF_RANKS
from jupyter_dist.model.transfer.pieces import LARGE_FROM_BYTES, WINDOW_PIECES, cut
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CellWaiting,
    FileUnreachable,
    Message,
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
COPIED = "into memory"
_CANCELLED_BEFORE = "it is cancelled: interrupted before it was sent; no rank has got it."
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
        self._pulled = PulledObjects(())
        self._is_sent = self._has_ended = False
        """The request has left; the answer has come."""

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
        request = PushObjects(
            self._connection.new_request_id(), tuple(objects), counts, ranks, timeout_s=timeout_s
        )

        def send() -> ObjectsPushed:
            if sum(sizes) < LARGE_FROM_BYTES:
                self._send(request, buffers)
                return self._await(ObjectsPushed)[0]
            large = replace(request, sizes=sizes)
            return self._push_in_memory(large, buffers) or self._push_in_pieces(large, buffers)

        raise_problems(self._with_line(request, send).problems)

    def _push_in_memory(
        self, request: PushObjects, buffers: Sequence[Frame]
    ) -> ObjectsPushed | None:
        """Push by way of a file in memory; None, and nothing is pushed, where that cannot be."""
        file = make_or_none() if self._connection.shares_memory else None
        if file is None:
            return None
        total_bytes = sum(request.sizes)
        with file:
            try:
                file.write(buffers, lambda so_far: self._teller.tell(so_far, total_bytes, COPIED))
                file.freeze()
            except OSError:  # memory is short
                return None
            self._send(replace(request, file=file.name))
            answer = self._await(ObjectsPushed, FileUnreachable)[0]
        if isinstance(answer, ObjectsPushed):
            return answer
        self._connection.shares_memory = False
        return None

    def _push_in_pieces(self, request: PushObjects, buffers: Sequence[Frame]) -> ObjectsPushed:
        """Push piece by piece, so that no more are on their way than the window takes."""
        self._send(request)
        sizes = deque(piece.nbytes for piece in cut(buffers))
        pieces = enumerate(cut(buffers), 1)
        arrived_bytes = 0
        for number, piece in islice(pieces, WINDOW_PIECES):
            self._send(SendPiece(self._request_id, number), [piece])
        while sizes:
            self._await(PieceTaken)
            for number, piece in islice(pieces, 1):
                self._send(SendPiece(self._request_id, number), [piece])
            arrived_bytes += sizes.popleft()
            self._teller.tell(arrived_bytes, sum(request.sizes), "to the coordinator")
        return self._await(ObjectsPushed)[0]

    def pull(self, wanted: PullObject, world_size: int = 0) -> dict[int, object]:
        """Fetch what is wanted, from all of `world_size` where no ranks are named: rank -> object.

        It is cancelled, or interrupted, as a push is. Raise TransferError, and UsageError for what
        is no expression.
        """
        name, ranks = wanted.name, wanted.ranks
        _check_expression(name)
        with closing(PulledObjects(ranks or range(world_size))) as self._pulled:
            request_id = self._connection.new_request_id()
            request = replace(wanted, request_id=request_id, files=self._pulled.names)

            def fetch() -> tuple[ObjectPulled, list[Frame]]:
                self._send(request)
                return self._await(ObjectPulled)

            answer, frames = self._with_line(request, fetch)
            raise_problems(answer.problems)
            small = zip(answer.ranks, split_frames(frames, answer.frame_counts), strict=True)
            large = {rank: self._pulled.frames(rank, answer.sizes[rank]) for rank in answer.sizes}
        found = dict(small) | large
        return {rank: _unpack(name, rank, found[rank]) for rank in sorted(found)}

    def _with_line(self, request: PushObjects | PullObject, call: Callable[[], Got]) -> Got:
        # Outside the try: who waits for another thread has sent nothing yet.
        with self._connection.lock:
            self._request_id = request.request_id
            self._teller = ProgressThrottle(request.request_id, self._on_moved)
            self._is_sent = self._has_ended = False
            try:
                return call()
            except KeyboardInterrupt:
                raise KeyboardInterrupt(self._take_back()) from None

    def _take_back(self) -> str:
        """Have it interrupted, wait until it has ended, and say how; a second Ctrl-C waits not."""
        if not self._is_sent:
            return _CANCELLED_BEFORE
        self._connection.send(WithdrawCell(self._request_id))
        deadline_s = monotonic() + END_PATIENCE_S
        while not self._has_ended and monotonic() < deadline_s:
            for message, _frames in self._connection.receive():
                if getattr(message, "request_id", None) != self._request_id:
                    continue
                if isinstance(message, FileUnreachable):  # it was closed before it was opened
                    return _CANCELLED_BEFORE
                if isinstance(message, Refused):
                    return f"it is cancelled: {message.reason}"
                if isinstance(message, ObjectsPushed | ObjectPulled):
                    return _say_end(message)
                if isinstance(message, CellWaiting) and self._on_word is not None:
                    self._on_word(message.reason)
        return CANCELLED_WHILE_QUEUED

    def _send(self, message: Message, buffers: Sequence[Frame] = ()) -> None:
        self._is_sent = True
        self._connection.send(message, buffers)

    def _await(self, *answer_types: type[Answer]) -> tuple[Answer, list[Frame]]:
        """Wait for an answer, and take in what comes before it; raises what a refusal names."""
        while True:
            for message, frames in self._connection.receive():
                if getattr(message, "request_id", None) not in (self._request_id, ""):
                    continue  # "": a refusal of something that could not be read
                if isinstance(message, answer_types):
                    self._has_ended = isinstance(message, ObjectsPushed | ObjectPulled)
                    return message, frames
                raise_refusal(message)
                self._take(message, frames)

    def _take(self, message: ToClient, frames: Sequence[Frame]) -> None:
        match message:
            case CellWaiting():
                if self._on_word is not None:
                    self._on_word(message.reason)
            case TransferMoved():
                moved_bytes = max(message.moved_bytes, self._pulled.moved_bytes)
                self._teller.pass_on(replace(message, moved_bytes=moved_bytes))
            case PulledPiece():
                self._pulled.take(message.rank, message.frame_bytes, frames[0])
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


def _check_expression(text: str) -> None:
    """Raise UsageError for what ranks could not evaluate."""
    try:
        compile(text, "<pull>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, TypeError, RecursionError) as problem:
        raise UsageError(
            f"{text!r} cannot be pulled: {getattr(problem, 'msg', problem)}. Accepted: a name, or "
            "an expression that ranks evaluate, as w[:10]."
        ) from None


def check_kind(name: str, kind: type, found: Mapping[int, object]) -> None:
    """Raise TransferError naming the first rank whose object is of another kind."""
    for rank, value in found.items():
        if not isinstance(value, kind):
            raise TransferError(
                f"rank {rank}: {name} is of type {type(value).__name__}, and {kind.__name__} is "
                f"asked for. Pull it without kind, or what makes it one there, as "
                f"{kind.__name__}({name})."
            )


def _unpack(name: str, rank: int, frames: Sequence[Frame]) -> object:
    """Return the object that a rank has given; raise TransferError naming the rank."""
    try:
        return unpack(name, frames)
    except TransferError as error:
        raise TransferError(f"rank {rank}: {error}") from error.__cause__


def _say_end(ended: ObjectsPushed | ObjectPulled) -> str:
    """Return what became of a push or pull that was interrupted."""
    if not ended.problems:
        return "it had ended on every rank"
    problems = "; ".join(f"rank {rank}: {text}" for rank, text in sorted(ended.problems.items()))
    return f"{problems}; the other ranks are done" if isinstance(ended, ObjectsPushed) else problems
