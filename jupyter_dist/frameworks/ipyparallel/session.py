"""What is said between an engine of ipyparallel and its controller: Jupyter's messages, signed."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jupyter_client.session import Session

from jupyter_dist.protocol.messages import ErrorInfo
from jupyter_dist.protocol.plain_values import MOST_LEVELS, Plainer, describe, plain_text

if TYPE_CHECKING:
    import zmq

Dict = dict[str, Any]
Place = Mapping[str, Any]
"""What ipcontroller-engine.json says: `interface`, and a port or several for each channel."""


class MessageSession:
    """Says and understands messages in the name of one engine, whose id is the rank."""

    def __init__(self, place: Place, engine_id: int) -> None:
        self.engine_id = engine_id
        self.uuid = str(uuid.uuid4())
        """Under which the controller's sockets know this engine."""
        self._session = Session(
            session=self.uuid,
            key=str(place["key"]).encode(),
            signature_scheme=place["signature_scheme"],
            packer=place["pack"],
            unpacker=place["unpack"],
        )

    @property
    def thresholds(self) -> Dict:
        """From which size on parts of an object travel as buffers of their own."""
        session = self._session
        return {
            "buffer_threshold": session.buffer_threshold,
            "item_threshold": session.item_threshold,
        }

    def understand(self, frames: Sequence["zmq.Frame"]) -> tuple[list[bytes], Dict]:
        """Return the way back, and the message. Raise ValueError, TypeError if it is forged."""
        parts: list[Any] = list(frames)
        idents, rest = self._session.feed_identities(parts, copy=False)
        message = self._session.deserialize(rest, content=True, copy=False)
        return idents, message

    def say(
        self,
        socket: "zmq.Socket[bytes]",
        kind: str,
        content: Dict,
        parent: Dict | None = None,
        idents: list[bytes] | None = None,
        **more: Any,
    ) -> None:
        """Send a message; `more` may have `metadata` and `buffers`.

        What the packer does not take is sent as text that it does.
        """
        metadata = {"engine": self.uuid, **more.pop("metadata", {})}
        send = self._session.send
        try:
            send(socket, kind, content, parent, idents, metadata=metadata, track=False, **more)
        except (ValueError, TypeError, OverflowError, RecursionError):
            if parent is not None:
                parent = {"header": _sendable(parent["header"])}
            content, metadata = _sendable(content), _sendable(metadata)
            send(socket, kind, content, parent, idents, metadata=metadata, track=False, **more)

    def publish(
        self, socket: "zmq.Socket[bytes]", kind: str, content: Dict, parent: Dict, **more: Any
    ) -> None:
        """Send to all that listen to what engines show."""
        topic = f"engine.{self.engine_id}.{kind}".encode()
        self.say(socket, kind, content, parent, [topic], **more)

    def engine_info(self, method: str) -> Dict:
        """Return who has failed, as ipyparallel's errors show it."""
        return {"engine_uuid": self.uuid, "engine_id": self.engine_id, "method": method}


def _sendable(value: Any, level: int = 0) -> Any:
    """Return it with all text as UTF-8 can have it, and what is no JSON as text."""
    match value:
        case str():
            return plain_text(value)
        case dict() | list() | tuple() if level > MOST_LEVELS:
            return "…"
        case dict():
            items = value.items()
            return {Plainer().copy_key(key): _sendable(each, level + 1) for key, each in items}
        case list() | tuple():
            return [_sendable(each, level + 1) for each in value]
        case None | bool() | int() | float() | bytes() | datetime():
            return value
        case _:
            return describe(value)


def error_content(error: ErrorInfo) -> Dict:
    """Return an error as messages have it."""
    return {
        "status": "error",
        "ename": error.ename,
        "evalue": error.evalue,
        "traceback": list(error.traceback),
    }


def refusal(sentence: str) -> Dict:
    """Return the answer to a request that is not carried out."""
    return error_content(ErrorInfo("NotImplementedError", sentence))
