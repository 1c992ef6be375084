"""Large pushes on their way to the coordinator: piece by piece, each one confirmed.

Only what is here as a whole waits at the fence: a client that goes away in the middle must not be
in anybody's way.
"""

from dataclasses import dataclass, field

from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import PieceTaken, PushObjects, SendPiece

PATIENCE_S = 60.0
"""A push of which no piece has come for so long is forgotten."""


@dataclass
class _Upload:
    request: PushObjects
    missing_bytes: int
    heard_s: float
    pieces: list[Frame] = field(default_factory=list)


class Uploads:
    """At most one for each client's line, which is how our own clients push."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._uploads: dict[bytes, _Upload] = {}

    def begin(self, client: bytes, request: PushObjects, now_s: float) -> None:
        """Expect the pieces of this push; one that was under way on the same line is forgotten."""
        self._uploads[client] = _Upload(request, sum(request.sizes), now_s)

    def take(
        self, client: bytes, message: SendPiece, frame: Frame, now_s: float
    ) -> tuple[PushObjects, list[Frame]] | None:
        """Take in a piece; with the last one, give the push and everything it is made of."""
        upload = self._uploads.get(client)
        if upload is None or upload.request.request_id != message.request_id:
            self._refuse(client, message, "no push is under way that this piece belongs to.")
            return None
        size = memoryview(frame).nbytes
        if message.number != len(upload.pieces) + 1 or not 0 < size <= upload.missing_bytes:
            del self._uploads[client]
            self._refuse(
                client,
                message,
                f"piece {message.number} of {size} bytes came; expected was piece "
                f"{len(upload.pieces) + 1} of {upload.missing_bytes} bytes at most. Push again.",
            )
            return None
        upload.pieces.append(frame)
        upload.missing_bytes -= size
        upload.heard_s = now_s
        self._sender.to_client(client, PieceTaken(message.request_id, message.number))
        if upload.missing_bytes:
            return None
        del self._uploads[client]
        return upload.request, upload.pieces

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
