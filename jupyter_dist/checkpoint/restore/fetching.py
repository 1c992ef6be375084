"""Pieces of a checkpoint as they come to this rank: from its files, or from another rank."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
import xxhash

from jupyter_dist.checkpoint.format.manifest import PartFile, Piece
from jupyter_dist.checkpoint.format.part_file import Bytes, PartReader
from jupyter_dist.checkpoint.rank_group import Progress, RankGroup
from jupyter_dist.checkpoint.restore.read_plan import Plan
from jupyter_dist.errors import CheckpointError

SENT_BYTES = 32 << 20
"""Of a piece so much is sent in one go: more would have to be held twice."""
_UINT8 = np.dtype(np.uint8)


def read_pieces(
    pieces: Sequence[Piece],
    files: Iterable[PartFile],
    paths: Mapping[str, Sequence[Path]],
    labels: Mapping[Piece, str],
    progress: Progress,
) -> dict[Piece, Bytes]:
    """Return the bytes of these pieces, which stand file by file.

    `paths` says where this rank sees each file: in the directory, and before that in its cache.
    Raises CheckpointDamaged when they are not what was saved in any place.
    """
    parts = {file.name: file for file in files}

    def read(path: Path, own: Sequence[Piece]) -> dict[Piece, Bytes]:
        with PartReader(path, parts[path.name], on_bytes=progress.add) as reader:
            return {piece: reader.read(piece, labels[piece]) for piece in own}

    got: dict[Piece, Bytes] = {}
    for name, group in groupby(pieces, key=attrgetter("file")):
        own = list(group)
        *cached, last = paths[name]
        for path in cached:
            # A copy may have gone bad; the directory has the original.
            with suppress(CheckpointError):
                got |= read(path, own)
                break
        else:
            got |= read(last, own)
    return got


def exchange(
    rank_group: RankGroup,
    plan: Plan,
    got: dict[Piece, Bytes],
    wanted: Collection[Piece],
    progress: Progress,
) -> list[Piece]:
    """Send and receive what the plan says; `got` has in the end what is wanted here.

    Gives the pieces that arrived with other bytes than were saved.
    """
    spoilt = []
    for send in plan.sends:
        piece = send.piece
        if send.sender == rank_group.rank:
            _broadcast(rank_group, got[piece], send.sender, piece.nbytes, progress)
            if piece not in wanted:
                del got[piece]
            continue
        room = np.empty(piece.nbytes, _UINT8) if piece in wanted else None
        _broadcast(rank_group, room, send.sender, piece.nbytes, progress)
        if room is not None:
            got[piece] = room
            if xxhash.xxh3_128_hexdigest(room.data) != piece.digest:
                spoilt.append(piece)
    return spoilt


def _broadcast(
    rank_group: RankGroup, room: Bytes | None, sender: int, nbytes: int, progress: Progress
) -> None:
    """Send what is in `room` from the sender to the room of the others, who may have none."""
    for start in range(0, nbytes, SENT_BYTES):
        stop = min(start + SENT_BYTES, nbytes)
        part = None if room is None else room[start:stop]
        came = rank_group.broadcast(part, sender, (stop - start,), _UINT8)
        if part is not None and sender != rank_group.rank and not np.may_share_memory(came, part):
            part[...] = came
        if part is not None and sender != rank_group.rank:
            progress.add(stop - start)
