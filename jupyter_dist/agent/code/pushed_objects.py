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
        self._problems: dict[str, str] = {}
        """Of those for which there is no room."""

    def add(self, chunk: pb.PlaceChunk) -> pb.AgentEvent | None:
        """Append a chunk; tell now and then how much is here, in the end where all of it lies."""
        path = self._path(chunk.request_id)
        taken_bytes = 0
        if chunk.request_id not in self._problems:
            try:
                with path.open("ab") as file:
                    file.write(chunk.data)
                    taken_bytes = file.tell()
            except OSError as error:
                self._problems[chunk.request_id] = str(error)
                self._unlink(path)
        if not chunk.is_last:
            if taken_bytes % TELL_BYTES >= len(chunk.data):
                return None
            taken = pb.PlaceTaken(request_id=chunk.request_id, taken_bytes=taken_bytes)
            return pb.AgentEvent(place_taken=taken)
        problem = self._problems.pop(chunk.request_id, "")
        placed = pb.Placed(request_id=chunk.request_id, path=str(path), problem=problem)
        return pb.AgentEvent(placed=placed)

    def remove(self, request_id: str) -> None:
        """Remove the file; its memory is freed when no engine maps it any more."""
        self._unlink(self._path(request_id))

    def _path(self, request_id: str) -> Path:
        return self._memory_dir / f"placed-{request_id}"

    @staticmethod
    def _unlink(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()
