"""Large objects travel in pieces, so that both ends know how much has arrived."""

from collections.abc import Iterator, Sequence

PIECE_BYTES = 4 << 20
LARGE_FROM_BYTES = 256 << 10
"""What is smaller travels as one message."""
WINDOW_PIECES = 8
"""So many may be on their way at once."""
_ALIGNED_BYTES = 64
"""What arrays, and what computes with them, expect of memory at most."""
Buffer = bytes | bytearray | memoryview


def cut(frames: Sequence[Buffer], most_bytes: int = 0) -> Iterator[memoryview]:
    """Yield frames as pieces, in their order and without copying; none goes over a frame's end."""
    most_bytes = most_bytes or PIECE_BYTES
    for frame in frames:
        view = memoryview(frame).cast("B")
        for start in range(0, len(view), most_bytes):
            yield view[start : start + most_bytes]


def offsets_in_file(sizes: Sequence[int]) -> list[int]:
    """Return where frames of these sizes begin in a file, aligned, and in the end its size."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(-(-end // _ALIGNED_BYTES) * _ALIGNED_BYTES)
        end = offsets[-1] + size if size else end
    return [*offsets, end]


def cut_with_offsets(frames: Sequence[Buffer]) -> Iterator[tuple[int, int, memoryview]]:
    """Yield pieces of frames: where each begins in a file, the size of its frame, the piece."""
    sizes = [memoryview(frame).nbytes for frame in frames]
    for frame, offset, size in zip(frames, offsets_in_file(sizes), sizes, strict=False):
        for number, piece in enumerate(cut([frame])):
            yield offset + number * PIECE_BYTES, size, piece


class Assembly:
    """Makes frames of pieces as they come, each in memory of its own."""

    def __init__(self) -> None:
        self._frames: list[bytearray] = []
        self._room = 0
        """Bytes that the last frame lacks."""
        self.taken_bytes = 0

    def take(self, piece: Buffer, frame_bytes: int) -> None:
        """Put a piece behind those before; `frame_bytes` is the size of the frame it is of."""
        size = memoryview(piece).nbytes
        if not self._room:
            self._frames.append(bytearray(frame_bytes))
            self._room = frame_bytes
        if not 0 < size <= self._room:
            raise ValueError(f"a piece of {size} bytes came where {self._room} are lacking")
        start = len(self._frames[-1]) - self._room
        self._frames[-1][start : start + size] = piece
        self._room -= size
        self.taken_bytes += size

    def give(self, sizes: Sequence[int]) -> list[bytearray]:
        """Return the frames, which have these sizes; no piece comes of an empty one."""
        whole = iter(self._frames)
        frames = [next(whole, bytearray()) if size else bytearray() for size in sizes]
        if self._room or [len(frame) for frame in frames] != list(sizes):
            raise ValueError(f"frames of {list(sizes)} bytes did not come whole")
        return frames
