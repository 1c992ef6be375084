"""Envelopes: what a relay and the coordinator send each other, messages of several ranks in one.

An envelope is `[version][letters][raw buffers…]`. A letter is for, or from, some ranks: each has
its own first frame with its stamp (ledger.py), and all else is the same for all of them.
"""

import secrets
from collections.abc import Iterator, Sequence

import msgspec

from jupyter_dist.errors import MalformedMessage
from jupyter_dist.protocol.codec import VERSION, Frame

_PREFIX = "relay-"
"""What the ZeroMQ identity of a relay begins with; names of engines are numbers."""


class Letter(msgspec.Struct, array_like=True, frozen=True):
    """One message, as it goes to or comes from some ranks."""

    names: list[bytes]
    """ZeroMQ identities of their engines."""
    firsts: list[bytes]
    """The first frame for each of them."""
    body: bytes
    buffers: int = 0
    """So many of the envelope's buffers are this letter's; they follow those of the one before."""


def new_relay() -> str:
    """Return an identity for a relay that no process can guess which was not told."""
    return f"{_PREFIX}{secrets.token_hex(16)}"


def is_relay(identity: bytes) -> bool:
    """Return whether this is the identity of a relay."""
    return identity.startswith(_PREFIX.encode())


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Letter])


def pack(letters: Sequence[Letter], buffers: Sequence[Frame] = ()) -> list[Frame]:
    """Return the frames of an envelope; the buffers are those of all letters, in order."""
    return [VERSION, _encoder.encode(letters), *buffers]


def unpack(head: Sequence[bytes], buffers: list[Frame]) -> Iterator[tuple[Letter, list[Frame]]]:
    """Yield each letter of an envelope with its buffers. Raise MalformedMessage for another thing.

    `head` are the first two frames.
    """
    try:
        _, body = head
        letters = _decoder.decode(body)
    except (ValueError, msgspec.MsgspecError) as error:
        raise MalformedMessage(f"this is no envelope of a relay: {error}") from error
    if any(len(each.names) != len(each.firsts) or each.buffers < 0 for each in letters):
        raise MalformedMessage("an envelope of a relay has letters that are not whole")
    begin = 0
    for letter in letters:
        end = begin + letter.buffers
        yield letter, buffers[begin:end]
        begin = end
