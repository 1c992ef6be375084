"""Large pushes of clients whose memory the coordinator cannot open: they come piece by piece.

Each piece is confirmed, and put into a file in memory, which ranks of this machine can open. Only
what is here as a whole waits at the fence: a client that goes away in the middle holds up no other.
"""

from collections import deque

from jupyter_dist.control.memory_file import make_or_none
from jupyter_dist.coordinator.cells.payload import Payload
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.transfer.pieces import Assembly, offsets_in_file
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import PieceTaken, PushObjects, SendPiece

PATIENCE_S = 60.0
"""A push of which no piece has come for so long is forgotten."""


class _Upload:
    """A push, and what has come of it."""

    def __init__(self, request: PushObjects, now_s: float) -> None:
        self.request, self.heard_s = request, now_s
        self.count = 0
        """Of pieces that have come."""
        self.missing_bytes = sum(request.sizes)
        self._file = make_or_none()
        self._assembly = Assembly()
        """In its place where the system has no such files."""
        places = zip(offsets_in_file(request.sizes), request.sizes, strict=False)
        self._lacking = deque(place for place in places if place[1])
        """Frames that are not whole: where the next piece begins, and how many bytes they lack."""

    def take(self, piece: Frame, now_s: float) -> None:
        """Take in the next piece.

        Raise ValueError when it goes over the end of its frame, and OSError when memory is short.
        """
        size, (offset, lacking_bytes) = memoryview(piece).nbytes, self._lacking[0]
        if not 0 < size <= lacking_bytes:
            raise ValueError(f"a piece of {size} bytes came where {lacking_bytes} are lacking")
        if self._file is not None:
            self._file.write_at(offset, piece)
        else:
            self._assembly.take(piece, lacking_bytes)
        self._lacking.popleft()
        if size < lacking_bytes:
            self._lacking.appendleft((offset + size, lacking_bytes - size))
        self.missing_bytes -= size
        self.heard_s = now_s
        self.count += 1

    def payload(self) -> Payload:
        """Return what has come, as a whole."""
        if self._file is None:
            return Payload(self._assembly.give(self.request.sizes))
        self._file.freeze()
        return Payload((), self.request.sizes, self._file)


class Uploads:
    """At most one for each client's line, which is how our own clients push."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._uploads: dict[bytes, _Upload] = {}

    def begin(self, client: bytes, request: PushObjects, now_s: float) -> None:
        """Expect the pieces of this push; one that was under way on the same line is forgotten."""
        self._uploads[client] = _Upload(request, now_s)

    def take(
        self, client: bytes, message: SendPiece, frame: Frame, now_s: float
    ) -> tuple[PushObjects, Payload] | None:
        """Take in a piece; with the last one, give the push and everything it is made of."""
        upload = self._uploads.get(client)
        if upload is None or upload.request.request_id != message.request_id:
            self._refuse(client, message, "no push is under way that this piece belongs to.")
            return None
        try:
            if message.number != upload.count + 1:
                raise ValueError(f"piece {message.number} came where {upload.count + 1} is lacking")
            upload.take(frame, now_s)
        except (ValueError, OSError) as problem:
            del self._uploads[client]
            self._refuse(client, message, f"the push has ended: {problem}. Push again.")
            return None
        self._sender.to_client(client, PieceTaken(message.request_id, message.number))
        if upload.missing_bytes:
            return None
        del self._uploads[client]
        return upload.request, upload.payload()

    def forget(self, client: bytes, request_id: str) -> bool:
        """Drop what has come of this push; tells whether it was under way."""
        upload = self._uploads.get(client)
        is_under_way = upload is not None and upload.request.request_id == request_id
        if is_under_way:
            del self._uploads[client]
        return is_under_way

    def forget_silent(self, now_s: float) -> None:
        """Drop pushes whose clients have gone away in the middle."""
        self._uploads = {
            client: upload
            for client, upload in self._uploads.items()
            if now_s - upload.heard_s < PATIENCE_S
        }

    def _refuse(self, client: bytes, message: SendPiece, reason: str) -> None:
        self._sender.refuse(client, message.request_id, ErrorCode.USAGE_ERROR, reason)
