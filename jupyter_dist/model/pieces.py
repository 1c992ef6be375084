"""Large objects travel in pieces, so that both ends know how much has arrived."""

from collections.abc import Iterator, Sequence

PIECE_BYTES = 4 << 20
PIECES_FROM_BYTES = 16 << 20
"""What is smaller travels as one message."""
WINDOW_PIECES = 8
"""So many may be on their way at once."""
Buffer = bytes | bytearray | memoryview


def cut(frames: Sequence[Buffer]) -> Iterator[memoryview]:
    """Give frames as pieces, in their order and without copying; none goes over a frame's end."""
    for frame in frames:
        view = memoryview(frame).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]


def join(pieces: Sequence[Buffer], sizes: Sequence[int]) -> list[bytearray]:
    """Make frames of these sizes from their pieces; ValueError when they do not fit."""
    frames = [bytearray(size) for size in sizes]
    rest = iter(pieces)
    for frame in frames:
        start = 0
        while start < len(frame):
            piece = memoryview(next(rest, b""))
            if not 0 < piece.nbytes <= len(frame) - start:
                raise ValueError(f"a piece of {piece.nbytes} bytes does not fit where it goes")
            frame[start : start + piece.nbytes] = piece
            start += piece.nbytes
    return frames
