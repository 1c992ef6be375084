"""Large pushed objects: they reach a host once, and its engines map them from memory."""

import contextlib
from pathlib import Path

from jupyter_dist.protocol import host_agent_pb2 as pb

TELL_BYTES = 8 << 20
"""So often it is told how much of an object is here."""


class PushedObjects:
    """Files under way and in place, by request."""

    def __init__(self, memory_dir: Path) -> None:
        self._memory_dir = memory_dir
        self._failed: set[str] = set()
        """Those for which there is no room, which has been told."""

    def add(self, chunk: pb.PlaceChunk) -> pb.AgentEvent | None:
        """Append a chunk; tell now and then how much is here, in the end where all of it lies."""
        path = self._path(chunk.request_id)
        if chunk.request_id in self._failed:
            return None
        try:
            with path.open("ab") as file:
                file.write(chunk.data)
                taken_bytes = file.tell()
        except OSError as error:
            self._failed.add(chunk.request_id)
            self._unlink(path)
            placed = pb.Placed(request_id=chunk.request_id, problem=str(error))
            return pb.AgentEvent(placed=placed)
        if chunk.is_last:
            return pb.AgentEvent(placed=pb.Placed(request_id=chunk.request_id, path=str(path)))
        if taken_bytes % TELL_BYTES >= len(chunk.data):
            return None
        taken = pb.PlaceTaken(request_id=chunk.request_id, taken_bytes=taken_bytes)
        return pb.AgentEvent(place_taken=taken)

    def remove(self, request_id: str) -> None:
        """Remove the file; its memory is freed when no engine maps it any more."""
        self._failed.discard(request_id)
        self._unlink(self._path(request_id))

    def _path(self, request_id: str) -> Path:
        return self._memory_dir / f"placed-{request_id}"

    @staticmethod
    def _unlink(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()
