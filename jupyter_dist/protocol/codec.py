"""Messages to frames and back: `[version][message][raw buffers…]`; other versions are refused."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec

from jupyter_dist.errors import MalformedMessage, VersionMismatch
from jupyter_dist.protocol.messages import (
    FromClient,
    Message,
    ToClient,
    ToCoordinator,
    ToEngine,
)
from jupyter_dist.version import WIRE

VERSION = WIRE.encode()
"""First frame of everything on the control channel."""

Frame = bytes | bytearray | memoryview
Incoming = TypeVar("Incoming")

_INTEGERS = (-(2**63), 2**64 - 1)
_MAX_DEPTH = 50
_encoder = msgspec.msgpack.Encoder()


def encode(message: Message, buffers: Sequence[Frame] = ()) -> list[Frame]:
    """Give the frames of one message, without the routing identity.

    What a user's display holds may not fit on the wire; it crosses as text then.
    """
    try:
        body = _encoder.encode(message)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError):
        body = _encoder.encode(_fit(message))
    return [VERSION, body, *buffers]


def _fit(value: Any, depth: int = 0) -> Any:
    """Copy a value as what MessagePack can carry: anything else as its `repr`."""
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and _INTEGERS[0] <= value <= _INTEGERS[1]:
        return int(value)
    if depth < _MAX_DEPTH:
        if isinstance(value, msgspec.Struct):
            return _fit_struct(value, depth)
        if isinstance(value, Mapping):
            return {_fit(k, depth + 1): _fit(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [_fit(item, depth + 1) for item in value]
    return _fit(repr(value))


def _fit_struct(struct: msgspec.Struct, depth: int) -> dict[str, Any]:
    config = struct.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    fields = {name: _fit(getattr(struct, name), depth + 1) for name in struct.__struct_fields__}
    return {**tag, **fields}


class Decoder(Generic[Incoming]):
    """Decodes the messages of one direction and refuses all others."""

    def __init__(self, union: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(union)

    def decode(self, frames: Sequence[Frame]) -> tuple[Incoming, list[Frame]]:
        """Give the message and its raw buffers.

        Raises VersionMismatch before anything is decoded, and MalformedMessage for bytes that
        are not a message of this direction.
        """
        if len(frames) < 2:
            raise MalformedMessage(f"expected at least 2 frames, got {len(frames)}")
        version = bytes(frames[0])
        if version != VERSION:
            theirs = version[:40].decode("ascii", "backslashreplace")
            raise VersionMismatch(VERSION.decode(), theirs)
        try:
            message = self._decoder.decode(frames[1])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedMessage(f"not a message for this side: {error}") from error
        return cast("Incoming", message), list(frames[2:])


def from_engine() -> Decoder[ToCoordinator]:
    """Make the decoder of what engines send."""
    return Decoder(ToCoordinator)


def to_engine() -> Decoder[ToEngine]:
    """Make the decoder of what engines receive."""
    return Decoder(ToEngine)


def from_client() -> Decoder[FromClient]:
    """Make the decoder of what clients send."""
    return Decoder(FromClient)


def to_client() -> Decoder[ToClient]:
    """Make the decoder of what clients receive."""
    return Decoder(ToClient)
