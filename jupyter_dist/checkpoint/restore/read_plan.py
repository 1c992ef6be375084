"""Who reads which piece of a checkpoint, and who sends it to the others."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from jupyter_dist.checkpoint.format.manifest import Piece
from jupyter_dist.errors import CheckpointDamaged
from jupyter_dist.text.lists import group_pairs


class Send(msgspec.Struct, frozen=True):
    """A piece that one rank has read and gives to all."""

    piece: Piece
    sender: int


class Plan(msgspec.Struct, frozen=True):
    """What every rank does; the same on all, because all make it of the same facts."""

    reads: tuple[tuple[Piece, ...], ...]
    """By rank, in the order of the files."""
    sends: tuple[Send, ...]
    """One after the other, on all ranks."""

    def read_bytes(self, rank: int) -> int:
        """How much a rank reads from files."""
        return sum(piece.nbytes for piece in self.reads[rank])


def make_plan(wanted: Sequence[Collection[Piece]], seen: Sequence[Collection[str]]) -> Plan:
    """Return who reads and who sends, so that every rank gets what it wants; both are by rank.

    `seen` has the names of the files that a rank can read. What all ranks want is read by one and
    sent to all; so is what some rank wants but cannot see. All else is read where it is wanted.
    What is read for others is shared out by bytes. Raises CheckpointDamaged for a piece in a file
    that no rank sees.
    """
    takers = group_pairs((piece, rank) for rank, own in enumerate(wanted) for piece in own)
    readers: dict[Piece, list[int]] = {}
    load = [0] * len(wanted)
    shared: list[Piece] = []
    for piece, ranks in takers.items():
        if _is_sent(ranks, piece, seen):
            shared.append(piece)
            continue
        readers[piece] = ranks
        for rank in ranks:
            load[rank] += piece.nbytes
    senders: dict[Piece, int] = {}
    for piece in sorted(shared, key=lambda one: (-one.nbytes, one.file, one.offset)):
        senders[piece] = sender = _pick_sender(piece, takers[piece], seen, load)
        readers[piece] = [sender]
        load[sender] += piece.nbytes
    return Plan(
        reads=tuple(
            _in_order(piece for piece, ranks in readers.items() if rank in ranks)
            for rank in range(len(wanted))
        ),
        sends=tuple(Send(piece, senders[piece]) for piece in _in_order(senders)),
    )


def _is_sent(takers: Sequence[int], piece: Piece, seen: Sequence[Collection[str]]) -> bool:
    is_for_all = len(takers) == len(seen) > 1
    return is_for_all or any(piece.file not in seen[rank] for rank in takers)


def _pick_sender(
    piece: Piece,
    takers: Sequence[int],
    seen: Sequence[Collection[str]],
    load: Sequence[int],
) -> int:
    """Return a rank that sees the file, rather one that wants it and has little to read so far."""
    able = [rank for rank, files in enumerate(seen) if piece.file in files]
    if not able:
        raise CheckpointDamaged(
            f"no rank sees {piece.file}, which has a part of what is restored. Start a cluster on "
            "hosts that have it, or restore another step."
        )
    return min(able, key=lambda rank: (rank not in takers, load[rank], rank))


def _in_order(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    # Neighbours in a file follow each other: that is how disks read fastest.
    return tuple(sorted(pieces, key=lambda one: (one.file, one.offset)))
