"""Part files: what one rank adds to a checkpoint, written and read in large runs of bytes.

Arrays lie in a file that safetensors can open; pickles lie one behind the other. Each run has a
digest of its own, and so has the header: together they cover every byte of the file.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from jupyter_dist.checkpoint.file_errors import as_not_saved, open_saved, unreadable
from jupyter_dist.checkpoint.format.block_writer import BlockWriter
from jupyter_dist.checkpoint.format.manifest import Box, PartFile, Piece, Tensor
from jupyter_dist.checkpoint.format.part_layout import Buffer, bytes_of, lay_out
from jupyter_dist.checkpoint.format.underway import Underway
from jupyter_dist.descriptors import Descriptor
from jupyter_dist.errors import CheckpointDamaged

CHUNK_BYTES = 16 << 20
"""So much goes to or comes from the file in one call; between two of them a rank can be
interrupted, and tells how far it is."""
Bytes = NDArray[np.uint8]
OnBytes = Callable[[int], object]


class _OpenFile:
    """A file that is closed at the end of a block; closing makes nothing whole."""

    def __init__(self, path: Path, file: Descriptor, on_bytes: OnBytes | None) -> None:
        self.path = path
        self._file = file
        self._fd = file.number
        self._on_bytes = on_bytes or (lambda _: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()


class _File(_OpenFile):
    """A new file that takes runs of bytes; whoever makes it says where they go."""

    def __init__(
        self, path: Path, *, rank: int, host: str, on_bytes: OnBytes | None = None
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with as_not_saved(path):
            super().__init__(path, Descriptor(partial(os.open, path, flags, 0o666)), on_bytes)
        self._rank = rank
        self._host = host
        self._header = b""
        self._size = 0
        self._blocks = BlockWriter(self._fd)

    def _put(self, key: str, data: memoryview, offset: int, box: Box = ()) -> Piece:
        digest = xxhash.xxh3_128()
        for start in range(0, len(data), CHUNK_BYTES):
            chunk = data[start : start + CHUNK_BYTES]
            with as_not_saved(self.path):
                self._blocks.write(chunk, offset + start)
            digest.update(chunk)  # while it is on its way
            self._on_bytes(len(chunk))
        return Piece(
            file=self.path.name,
            offset=offset,
            nbytes=len(data),
            digest=digest.hexdigest(),
            rank=self._rank,
            key=key,
            box=box,
        )

    def close(self) -> None:
        self._blocks.close()
        super().close()

    def finish(self) -> PartFile:
        """Have it on the disk, and say what tells that it is whole. Raises CheckpointFailed."""
        with as_not_saved(self.path):
            self._blocks.flush()
            _sync(self._fd)
            self.close()
        return PartFile(
            name=self.path.name,
            nbytes=self._size,
            rank=self._rank,
            host=self._host,
            digest=xxhash.xxh3_128_hexdigest(self._header),
            header_nbytes=len(self._header),
        )


def _sync(fd: int) -> None:
    """Have a file on the disk, and stay open to interrupts: that may take minutes. OSError."""
    own = Descriptor(partial(os.dup, fd))

    def sync() -> None:
        with own:
            os.fsync(own.number)

    Underway(sync, "fsync").wait()


class PartWriter(_File):
    """Writes arrays into a new safetensors file, each straight from the memory it lies in.

    `tensors` says beforehand what will be written, for the header comes first; they are then
    written in any order. Raises CheckpointFailed when the file cannot be written, ValueError for
    data that is not as was said.
    """

    def __init__(
        self,
        path: Path,
        tensors: Sequence[Tensor],
        *,
        rank: int,
        host: str,
        on_bytes: OnBytes | None = None,
    ) -> None:
        header, spans = lay_out(tensors)
        super().__init__(path, rank=rank, host=host, on_bytes=on_bytes)
        self._header = header
        self._left = {tensor.key: (tensor, spans[tensor.key]) for tensor in tensors}
        self._size = max((stop for _, stop in spans.values()), default=len(header))
        try:
            with as_not_saved(path):
                self._blocks.write(memoryview(header), 0)
                self._blocks.flush()
        except BaseException:
            self.close()
            raise

    def write(self, key: str, data: Buffer, box: Box) -> Piece:
        """Write one of the arrays; `data` is contiguous and of the machine's byte order."""
        tensor, (start, stop) = self._left[key]
        view = bytes_of(data)
        if len(view) != stop - start:
            raise ValueError(
                f"{key}: {len(view)} bytes came for {tensor.dtype} of shape {tensor.shape}, which "
                f"has {stop - start}"
            )
        piece = self._put(key, view, start, box)
        del self._left[key]
        return piece

    def finish(self) -> PartFile:
        """Have it on the disk, and say what tells that it is whole; ValueError if arrays lack."""
        if self._left:
            raise ValueError(f"{self.path.name} lacks {', '.join(self._left)}")
        return super().finish()


class PickleWriter(_File):
    """Writes pickles one behind the other into a new file. Raises CheckpointFailed."""

    def write(self, key: str, data: Buffer) -> Piece:
        """Write one pickle."""
        piece = self._put(key, bytes_of(data), self._size)
        self._size += piece.nbytes
        return piece


class PartReader(_OpenFile):
    """Reads pieces of a part file, and gives only bytes that are those that were saved.

    Raises CheckpointDamaged, also where the file is missing, has another size, or is none: links
    and devices are not followed.
    """

    def __init__(self, path: Path, part: PartFile, on_bytes: OnBytes | None = None) -> None:
        super().__init__(path, open_saved(path), on_bytes)
        try:
            self._check(part)
        except BaseException:
            self.close()
            raise

    def read(self, piece: Piece, label: str = "") -> Bytes:
        """Return the bytes of a piece, in memory of their own; `label` names it in an error."""
        data = np.empty(piece.nbytes, np.uint8)
        if self._fill(data.data, piece.offset) != piece.digest:
            raise CheckpointDamaged(
                f"{self.path}: the bytes of {label or piece.key} are not those that were saved. "
                "Restore another step."
            )
        return data

    def _check(self, part: PartFile) -> None:
        nbytes = os.fstat(self._fd).st_size
        if nbytes != part.nbytes:
            raise CheckpointDamaged(
                f"{self.path} has {nbytes} bytes instead of {part.nbytes}. Restore another step."
            )
        header = memoryview(bytearray(part.header_nbytes))
        if self._fill(header, 0, is_told=False) != part.digest:
            raise CheckpointDamaged(
                f"{self.path}: its header is not the one that was saved. Restore another step."
            )

    def _fill(self, room: memoryview, offset: int, *, is_told: bool = True) -> str:
        """Read as many bytes as there is room for, and give their digest."""
        digest = xxhash.xxh3_128()
        done = 0
        while done < len(room):
            chunk = room[done : done + CHUNK_BYTES]
            try:
                count = os.preadv(self._fd, [chunk], offset + done)
            except OSError as error:
                raise unreadable(self.path, error) from error
            if count == 0:
                raise CheckpointDamaged(
                    f"{self.path} ends {len(room) - done} bytes too early. Restore another step."
                )
            digest.update(chunk[:count])
            done += count
            if is_told:
                self._on_bytes(count)
        return digest.hexdigest()
