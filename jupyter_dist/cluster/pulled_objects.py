"""Where a pull comes together: in files in memory that ranks write to, or of pieces."""

from collections import defaultdict
from collections.abc import Sequence

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.errors import TransferError
from jupyter_dist.model.transfer.pieces import Assembly
from jupyter_dist.protocol.codec import Frame

MOST_FILES = 256
"""More ranks than this send what is large in pieces: a process may not open files without end."""


class PulledObjects:
    """What ranks give that is large; the files are this process's, and go when it closes them."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._files = _make_files(ranks[:MOST_FILES])
        self._assemblies: dict[int, Assembly] = defaultdict(Assembly)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the files, in the order of ranks; ranks without one send pieces."""
        return tuple(file.name for file in self._files.values())

    @property
    def moved_bytes(self) -> int:
        """How much has come."""
        written_bytes = sum(file.used_bytes for file in self._files.values())
        return written_bytes + sum(each.taken_bytes for each in self._assemblies.values())

    def take(self, rank: int, frame_bytes: int, piece: Frame) -> None:
        """Put a piece behind those of this rank before; `frame_bytes` is the size of its frame."""
        self._assemblies[rank].take(piece, frame_bytes)

    def frames(self, rank: int, sizes: Sequence[int]) -> Sequence[Frame]:
        """Return the frames of a rank, which have these sizes; raise TransferError without them."""
        try:
            if rank in self._assemblies:
                return self._assemblies[rank].give(sizes)
            self._files[rank].freeze()
            return self._files[rank].map(sizes)
        except (OSError, ValueError, KeyError) as error:
            raise TransferError(f"rank {rank}: what it gave cannot be read: {error}") from error

    def close(self) -> None:
        """Let go of the files; what was mapped stays."""
        for file in self._files.values():
            file.close()


def _make_files(ranks: Sequence[int]) -> dict[int, MemoryFile]:
    """Return a file for each rank, or none where the system, or this process, can have no more."""
    files: dict[int, MemoryFile] = {}
    try:
        for rank in ranks:
            files[rank] = MemoryFile.make()
    except OSError:
        for file in files.values():
            file.close()
        return {}
    return files
