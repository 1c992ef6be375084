"""Large pushed objects: they reach a host once, and its engines map them from memory."""

import contextlib
from pathlib import Path

from jupyter_dist.protocol import host_agent_pb2 as pb


class Placements:
    """Files under way and in place, by request."""

    def __init__(self, memory_dir: Path) -> None:
        self._memory_dir = memory_dir
        self._problems: dict[str, str] = {}

    def add(self, chunk: pb.PlaceChunk) -> pb.Placed | None:
        """Append a chunk; with the last one, tell where all of them lie."""
        path = self._path(chunk.request_id)
        if chunk.request_id not in self._problems:
            try:
                with path.open("ab") as file:
                    file.write(chunk.data)
            except OSError as error:
                self._problems[chunk.request_id] = str(error)
                self._unlink(path)
        if not chunk.is_last:
            return None
        problem = self._problems.pop(chunk.request_id, "")
        return pb.Placed(request_id=chunk.request_id, path=str(path), problem=problem)

    def remove(self, request_id: str) -> None:
        """Remove the file; its memory is freed when no engine maps it any more."""
        self._unlink(self._path(request_id))

    def _path(self, request_id: str) -> Path:
        return self._memory_dir / f"placed-{request_id}"

    @staticmethod
    def _unlink(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()
