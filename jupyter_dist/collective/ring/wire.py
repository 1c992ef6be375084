"""What ring transports say to each other: a header before each payload, and why they leave.

Both are fixed in size. A header goes with the data, from sender to receiver, once for each
connection that an operation uses. A breakage goes the other way, from receiver to sender, where
no data ever flows, so that it never has to wait behind a half-sent payload.
"""

import struct

from jupyter_dist.collective.broken import Breakage, BreakageKind
from jupyter_dist.collective.calls.call import OPERATIONS, REDUCTIONS, SHAPE_BYTES, Call, Signature
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.model.hosts.rank import format_ranks, parse_numbers
from jupyter_dist.model.ranks.records import MESSAGES

_SITE_BYTES = 64
_HEADER = struct.Struct(f"!4sBBxxQQiQ16s{SHAPE_BYTES}s{_SITE_BYTES}s")
_HEADER_MAGIC = b"JDR2"
HEADER_BYTES = _HEADER.size
AGREED_BYTES = HEADER_BYTES - _SITE_BYTES
"""What two ranks in the same call write alike; where they were called from may differ."""

_RANKS_BYTES = 60
_MOST_RANKS = 1 << 16
_BREAKAGE = struct.Struct(f"!4sBxxxii240s240s{_RANKS_BYTES}s{_RANKS_BYTES}s")
_BREAKAGE_MAGIC = b"JDX2"
BREAKAGE_BYTES = _BREAKAGE.size
_TEXT_BYTES = 240
_KINDS: tuple[BreakageKind, ...] = ("failed", "left", "mismatch", "timeout", "reset")


def pack_header(call: Call, generation: int, payload_bytes: int, site: str = "") -> bytes:
    """Write the header of a payload."""
    meant = call.signature
    return _HEADER.pack(
        _HEADER_MAGIC,
        OPERATIONS.index(meant.operation),
        REDUCTIONS.index(meant.reduction),
        generation,
        call.sequence,
        meant.root,
        payload_bytes,
        meant.dtype.encode(),
        meant.shape.encode(),
        site.encode()[:_SITE_BYTES],
    )


def unpack_header(header: bytes | bytearray | memoryview) -> tuple[Call, int, int, str]:
    """Read a header: call, generation, payload bytes, site; raise MalformedMessage if it is none.

    The size of the array and the group are not in it.
    """
    magic, operation, reduction, generation, sequence, root, payload, *texts = _HEADER.unpack(
        header
    )
    try:
        dtype, shape, site = (text.rstrip(b"\0").decode() for text in texts)
        signature = Signature(OPERATIONS[operation], dtype, shape, REDUCTIONS[reduction], root)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"no header of a collective: {bytes(header[:8])!r}…") from error
    if magic != _HEADER_MAGIC:
        raise MalformedMessage(f"no header of a collective: {bytes(header[:8])!r}…")
    return Call(signature, sequence), generation, payload, site


def is_collective(header: bytes | bytearray | memoryview, expected: bytes) -> bool:
    """Return whether a header is that of a collective, whose payload has the expected size."""
    try:
        call, generation, payload_bytes, _site = unpack_header(header)
    except MalformedMessage:
        return False
    ours, our_generation, our_bytes, _site = unpack_header(expected)
    has_same_size = (generation, payload_bytes) == (our_generation, our_bytes)
    return has_same_size and not MESSAGES & {call.operation, ours.operation}


def pack_breakage(breakage: Breakage) -> bytes:
    """Write a breakage; long texts are cut, and long lists of ranks left out."""
    sides = [format_ranks(side).encode() for side in (breakage.ranks, breakage.peers)]
    if any(len(side) > _RANKS_BYTES for side in sides):
        sides = [b"", b""]
    return _BREAKAGE.pack(
        _BREAKAGE_MAGIC,
        _KINDS.index(breakage.kind),
        breakage.rank,
        breakage.peer,
        breakage.text.encode()[:_TEXT_BYTES],
        breakage.peer_text.encode()[:_TEXT_BYTES],
        *sides,
    )


def unpack_breakage(frame: bytes | bytearray) -> Breakage:
    """Read a breakage; raise MalformedMessage if it is none."""
    magic, kind, rank, peer, *texts = _BREAKAGE.unpack(frame)
    if magic != _BREAKAGE_MAGIC or kind >= len(_KINDS):
        raise MalformedMessage(f"no breakage: {bytes(frame[:8])!r}…")
    text, peer_text, *sides = map(_text, texts)
    ranks, peers = (parse_numbers(side, _MOST_RANKS) or () for side in sides)
    return Breakage(_KINDS[kind], rank, text, peer, peer_text, ranks, peers)


def _text(padded: bytes) -> str:
    return padded.rstrip(b"\0").decode(errors="ignore")
