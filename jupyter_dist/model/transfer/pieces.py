"""Large objects travel in pieces, so that both ends know how much has arrived."""

from collections.abc import Iterator, Sequence

PIECE_BYTES = 4 << 20
PIECES_FROM_BYTES = 16 << 20
"""What is smaller travels as one message."""
WINDOW_PIECES = 8
"""So many may be on their way at once."""
Buffer = bytes | bytearray | memoryview


def cut(frames: Sequence[Buffer]) -> Iterator[memoryview]:
    """Yield frames as pieces, in their order and without copying; none goes over a frame's end."""
    for frame in frames:
        view = memoryview(frame).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]


def join(pieces: Sequence[Buffer], sizes: Sequence[int]) -> list[bytearray]:
    """Make frames of these sizes from their pieces; ValueError when they do not fit."""
    assembly, rest = Assembly(), iter(pieces)
    for size in filter(None, sizes):
        missing = size
        while missing > 0:
            piece = next(rest, b"")
            assembly.take(piece, size)
            missing -= memoryview(piece).nbytes
    return assembly.give(sizes)


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
