"""What ring communicators say to each other: a header before each payload, and why they leave.

Both are fixed in size. A header goes with the data, from sender to receiver, once for each
connection that an operation uses. A breakage goes the other way, from receiver to sender, where
no data ever flows, so that it never has to wait behind a half-sent payload.
"""

import struct
from typing import Literal, assert_never

import msgspec

from jupyter_dist.collective.call import OPERATIONS, REDUCTIONS, Call
from jupyter_dist.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    CommunicatorError,
    MalformedMessage,
    PeerFailed,
)

_HEADER = struct.Struct("!4sBBxxQQiQ8s72s")
_HEADER_MAGIC = b"JDR1"
HEADER_BYTES = _HEADER.size

_BREAKAGE = struct.Struct("!4sBxxxii240s240s")
_BREAKAGE_MAGIC = b"JDX1"
BREAKAGE_BYTES = _BREAKAGE.size
_TEXT_BYTES = 240


def pack_header(call: Call, generation: int, payload_bytes: int) -> bytes:
    """Write the header of a payload; two ranks in the same call write the same bytes."""
    return _HEADER.pack(
        _HEADER_MAGIC,
        OPERATIONS.index(call.operation),
        REDUCTIONS.index(call.reduction),
        generation,
        call.sequence,
        call.root,
        payload_bytes,
        call.dtype.encode(),
        call.shape.encode(),
    )


def unpack_header(header: bytes | bytearray | memoryview) -> tuple[Call, int, int]:
    """Read a header as call, generation and payload bytes; raise MalformedMessage if it is none."""
    magic, operation, reduction, generation, sequence, root, payload, dtype, shape = _HEADER.unpack(
        header
    )
    try:
        call = Call(
            operation=OPERATIONS[operation],
            sequence=sequence,
            dtype=dtype.rstrip(b"\0").decode(),
            shape=shape.rstrip(b"\0").decode(),
            reduction=REDUCTIONS[reduction],
            root=root,
        )
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"no header of a collective: {bytes(header[:8])!r}…") from error
    if magic != _HEADER_MAGIC:
        raise MalformedMessage(f"no header of a collective: {bytes(header[:8])!r}…")
    return call, generation, payload


BreakageKind = Literal["failed", "left", "mismatch", "timeout"]
_KINDS: tuple[BreakageKind, ...] = ("failed", "left", "mismatch", "timeout")


class Breakage(msgspec.Struct, frozen=True):
    """Why a communicator broke, from nobody's point of view in particular."""

    kind: BreakageKind
    rank: int
    """Who failed, left, gave up waiting, or found the mismatch; -1 when it is not one rank."""
    text: str
    """What it did, following the words "rank 2"; for a mismatch, its call."""
    peer: int = -1
    peer_text: str = ""

    def error(self, viewer: int) -> CommunicatorError:
        """Return the exception that the rank `viewer` raises for this."""
        match self.kind:
            case "failed":
                return PeerFailed(self.rank, self.text)
            case "mismatch" if viewer == self.peer:
                return CollectiveMismatch(self.peer, self.peer_text, self.rank, self.text)
            case "mismatch":
                return CollectiveMismatch(self.rank, self.text, self.peer, self.peer_text)
            case "timeout" if viewer == self.rank:
                return CollectiveTimeout(f"rank {self.rank} {self.text}")
            case "left" if viewer == self.rank:
                return CommunicatorError(
                    f"this communicator is broken: rank {self.rank} {self.text}, so the ranks are "
                    "out of step. A new one is formed before the next cell."
                )
            case "timeout" | "left":
                return PeerFailed(self.rank, self.text)
            case _:
                assert_never(self.kind)


def pack_breakage(breakage: Breakage) -> bytes:
    """Write a breakage; long texts are cut."""
    return _BREAKAGE.pack(
        _BREAKAGE_MAGIC,
        _KINDS.index(breakage.kind),
        breakage.rank,
        breakage.peer,
        breakage.text.encode()[:_TEXT_BYTES],
        breakage.peer_text.encode()[:_TEXT_BYTES],
    )


def unpack_breakage(frame: bytes | bytearray) -> Breakage:
    """Read a breakage; raise MalformedMessage if it is none."""
    magic, kind, rank, peer, text, peer_text = _BREAKAGE.unpack(frame)
    if magic != _BREAKAGE_MAGIC or kind >= len(_KINDS):
        raise MalformedMessage(f"no breakage: {bytes(frame[:8])!r}…")
    return Breakage(_KINDS[kind], rank, _text(text), peer, _text(peer_text))


def _text(padded: bytes) -> str:
    return padded.rstrip(b"\0").decode(errors="ignore")
