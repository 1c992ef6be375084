"""Messages to frames and back: `[version][message][raw buffers…]`; other versions are refused."""

from collections.abc import Sequence
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

VERSION = b"jupyter-dist/1"
"""First frame of everything on the control channel. Adding a field with a default keeps it."""

Frame = bytes | bytearray | memoryview
Incoming = TypeVar("Incoming")

_encoder = msgspec.msgpack.Encoder()


def encode(message: Message, buffers: Sequence[Frame] = ()) -> list[Frame]:
    """Frames of one message, without the routing identity."""
    return [VERSION, _encoder.encode(message), *buffers]


class Decoder(Generic[Incoming]):
    """Decodes the messages of one direction and refuses all others."""

    def __init__(self, union: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(union)

    def decode(self, frames: Sequence[Frame]) -> tuple[Incoming, list[Frame]]:
        """The message and its raw buffers.

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
        except msgspec.DecodeError as error:
            raise MalformedMessage(f"not a message for this side: {error}") from error
        return cast("Incoming", message), list(frames[2:])


def from_engine() -> Decoder[ToCoordinator]:
    """Decoder of what engines send."""
    return Decoder(ToCoordinator)


def to_engine() -> Decoder[ToEngine]:
    """Decoder of what engines receive."""
    return Decoder(ToEngine)


def from_client() -> Decoder[FromClient]:
    """Decoder of what clients send."""
    return Decoder(FromClient)


def to_client() -> Decoder[ToClient]:
    """Decoder of what clients receive."""
    return Decoder(ToClient)
