"""A pull: ranks write what is large to the client's memory, or it passes through in pieces."""

from collections.abc import Sequence

from msgspec.structs import replace

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.coordinator.cells.cell_run import CellParts
from jupyter_dist.coordinator.cells.transfers import Transfer
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    FetchedPiece,
    FetchObject,
    ObjectFetched,
    ObjectPulled,
    PulledPiece,
    PullObject,
    TransferMoved,
)
from jupyter_dist.text.lists import name_pull


class Pull(Transfer):
    """One pull under way."""

    def __init__(
        self, client: bytes, request: PullObject, transfer_id: str, parts: CellParts
    ) -> None:
        """Take a request."""
        super().__init__(client, request, transfer_id, parts, "packing")
        self.label = name_pull(request.name)
        self._wanted = FetchObject(
            self._id, request.name, cell_id=request.cell_id, most_bytes=request.most_bytes
        )
        self._names = dict(zip(self.ranks, request.files, strict=False))
        """Of files of the client, by rank."""
        self._files: dict[int, MemoryFile | None] = {}
        """Those that are written here; None: pieces go to the client as they are."""
        self._frames: dict[int, Sequence[Frame]] = {}
        """What is small, by rank."""
        self._sizes: dict[int, tuple[int, ...]] = {}
        """Of the frames that lie in the client's file, or have gone there in pieces."""
        self._come_bytes = 0
        """In pieces."""

    def _begin(self) -> None:
        engines = self._roster.engines
        near = {rank for rank in self._names if engines[rank].shares_memory}
        for rank in near:
            self._order([rank], replace(self._wanted, file=self._names[rank]))
        others = [rank for rank in self.ranks if rank not in near]
        self._order(others, self._wanted)

    def _keep_piece(self, piece: FetchedPiece, frames: list[Frame]) -> None:
        """Put a piece into the client's file, or send it on."""
        rank = piece.rank
        self._come_bytes += sum(memoryview(frame).nbytes for frame in frames)
        if rank not in self._files:
            self._files[rank] = _open(self._names.get(rank, ""))
        if (file := self._files[rank]) is None:
            word = PulledPiece(self.request_id, rank, piece.frame_bytes)
            self._sender.to_client(self.client, word, frames)
            return
        try:
            for frame in frames:
                file.write_at(piece.offset, frame)
        except OSError as error:
            self._problems.setdefault(rank, f"it cannot be kept here: {error}")

    def _keep(self, answer: ObjectFetched, buffers: list[Frame]) -> None:
        if answer.sizes:
            self._sizes[answer.rank] = answer.sizes
        else:
            self._frames[answer.rank] = buffers

    def _describe(self, of_ranks: str) -> TransferMoved:
        small = (frame for frames in self._frames.values() for frame in frames)
        written = (sum(sizes) for rank, sizes in self._sizes.items() if rank not in self._files)
        moved = self._come_bytes + sum(memoryview(frame).nbytes for frame in small) + sum(written)
        return TransferMoved(self.request_id, moved, 0, f"from {of_ranks}")

    def _hand_over(self) -> None:
        self._files.clear()
        ranks = tuple(sorted(self._frames))
        counts = tuple(len(self._frames[rank]) for rank in ranks)
        frames = [frame for rank in ranks for frame in self._frames[rank]]
        pulled = ObjectPulled(self.request_id, ranks, counts, self._problems, self._sizes)
        self._sender.to_client(self.client, pulled, frames)


def _open(name: str) -> MemoryFile | None:
    """Return the client's file; None where there is none, or it is on another machine."""
    try:
        return MemoryFile.open(name) if name else None
    except (OSError, ValueError):
        return None
