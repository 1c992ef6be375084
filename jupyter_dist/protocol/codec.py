"""Messages to frames and back: `[version][message][raw buffers…]`; other versions are refused."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, get_args

import msgspec

from jupyter_dist.errors import MalformedMessage, VersionMismatch
from jupyter_dist.protocol.messages import (
    CellOutput,
    CellResult,
    FromClient,
    Message,
    ToClient,
    ToCoordinator,
    ToEngine,
)
from jupyter_dist.protocol.unreadable import (
    UNDECODABLE,
    Unreadable,
    log_unreadable,
    read_report,
    read_word,
)
from jupyter_dist.version import WIRE

VERSION = WIRE.encode()
"""First frame of everything on the control channel."""

Frame = bytes | bytearray | memoryview
Incoming = TypeVar("Incoming")

ReadInPart = Callable[[Unreadable], Message | None]
"""Gives what stands in for a message that cannot be decoded, if anything can."""
_encoder = msgspec.msgpack.Encoder()
_STREAMS = ("stdout", "stderr")
"""Outputs that hold nothing but text which was decoded on the rank."""
_REPORTS = frozenset(get_args(ToCoordinator))
"""What ranks say, among it what user code has put into their mouths."""
_reader = msgspec.msgpack.Decoder(ToCoordinator)
"""Reads as the coordinator will."""


def encode(message: Message, buffers: Sequence[Frame] = ()) -> list[Frame]:
    """Return the frames of one message, without the routing identity.

    What user code has put into it may not fit on the wire, or not be what the reader expects; it
    crosses as text then.
    """
    try:
        body = _encoder.encode(message)
        if type(message) in _REPORTS and not _is_plain(message):
            _reader.decode(body)
    except Exception:  # noqa: BLE001  (objects of users, and what they say when they are looked at)
        body = _encode_otherwise(message)
    return [VERSION, body, *buffers]


def _is_plain(message: Message) -> bool:
    """Return whether a report has nothing but text in it, which needs no second look."""
    match message:
        case CellOutput() | CellResult(error=None, value_repr=None | str()):
            return not message.outputs or all(each.kind in _STREAMS for each in message.outputs)
    return False


def _encode_otherwise(message: Message) -> bytes:
    """Encode what of a message the reader can make sense of; it answers what is missing."""
    from jupyter_dist.protocol import fitting  # hardly ever needed

    try:
        return _encoder.encode(fitting.fit_struct(message))
    except Exception:  # noqa: BLE001
        return _encoder.encode(fitting.head_of(message))


class Decoder(Generic[Incoming]):
    """Decodes the messages of one direction and refuses all others."""

    def __init__(self, union: Any, read_in_part: ReadInPart | None = None) -> None:
        self._decoder = msgspec.msgpack.Decoder(union)
        self._read_in_part = read_in_part

    def decode(self, frames: Sequence[Frame]) -> Incoming:
        """Return the message of the first two frames, or what stands in for an unreadable one.

        Raises VersionMismatch before anything is decoded, and MalformedMessage for bytes that
        are not a message of this direction.
        """
        if len(frames) < 2:
            raise MalformedMessage(f"expected at least 2 frames, got {len(frames)}")
        if frames[0] != VERSION:
            theirs = bytes(frames[0][:40]).decode("ascii", "backslashreplace")
            raise VersionMismatch(VERSION.decode(), theirs)
        try:
            message: Incoming = self._decoder.decode(frames[1])
        except UNDECODABLE as error:
            problem = Unreadable(bytes(frames[1]), f"not a message for this side: {error}")
            log_unreadable(problem)
            part: Any = self._read_in_part(problem) if self._read_in_part is not None else None
            if part is None:
                raise problem from error
            message = part
        return message


def from_engine() -> Decoder[ToCoordinator]:
    """Make the decoder of what engines send."""
    return Decoder(ToCoordinator, read_report)


def to_engine() -> Decoder[ToEngine]:
    """Make the decoder of what engines receive."""
    return Decoder(ToEngine)


def from_client() -> Decoder[FromClient]:
    """Make the decoder of what clients send."""
    return Decoder(FromClient)


def to_client() -> Decoder[ToClient]:
    """Make the decoder of what clients receive."""
    return Decoder(ToClient, read_word)
