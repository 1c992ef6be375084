"""One client of the protocol, on its socket or elsewhere: what it asks, and what it gets."""

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from jupyter_dist.errors import WireError
from jupyter_dist.protocol.dap import MOST_BYTES, MessageReader, frame

STRANGER_BYTES = 64 << 10
STRANGER_S = 10.0
"""What is read of a client, and waited for it, before it has shown the token."""
_READ_BYTES = 1 << 16


class DapClient(ABC):
    """Takes messages of the protocol; any thread may send them."""

    def __init__(self) -> None:
        self._numbers = count(1)

    @abstractmethod
    def write(self, content: bytes) -> None:
        """Send the JSON of one message; a client that has gone hears nothing."""

    @abstractmethod
    def close(self) -> None:
        """End it, from any thread; who reads what it asks finds the end of that."""

    def tell(self, event: str, body: Mapping[str, Any]) -> None:
        """Send an event."""
        self._send({"type": "event", "event": event, "body": body})

    def ask(self, command: str, arguments: Mapping[str, Any]) -> None:
        """Send a request to the client, whose answer does not matter."""
        self._send({"type": "request", "command": command, "arguments": arguments})

    def answer(self, request: Mapping[str, Any], body: Any = None, *, problem: str = "") -> None:
        """Answer a request; with `problem` it has failed, and the user sees why."""
        message: dict[str, Any] = {
            "type": "response",
            "request_seq": request.get("seq", 0),
            "command": request.get("command", ""),
            "success": not problem,
        }
        if problem:
            error = {"id": 1, "format": "{problem}", "variables": {"problem": problem}}
            message |= {"message": problem, "body": {"error": {**error, "showUser": True}}}
        elif body is not None:
            message["body"] = body
        self._send(message)

    def _send(self, message: dict[str, Any]) -> None:
        self.write(msgspec.json.encode({"seq": next(self._numbers), **message}))


class ClientStream(DapClient):
    """Reads on one thread; any may write."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._socket = connection
        self._socket.settimeout(STRANGER_S)
        self._reader = MessageReader(STRANGER_BYTES)
        self._writing = threading.Lock()

    def trust(self) -> None:
        """Take in what this client says, however long it is silent."""
        self._reader.most_bytes = MOST_BYTES
        self._socket.settimeout(None)

    def read(self) -> Iterator[bytes]:
        """Yield the JSON of each message until the client leaves, or speaks otherwise."""
        with suppress(OSError, WireError):
            while data := self._socket.recv(_READ_BYTES):
                yield from self._reader.take(data)

    def write(self, content: bytes) -> None:
        """Send the JSON of one message; a client that has gone hears nothing."""
        with self._writing, suppress(OSError):
            self._socket.sendall(frame(content))

    def close(self) -> None:
        """End it, from any thread; the reader finds the end of the stream."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close the socket; on the thread that reads, when it has ended."""
        self._socket.close()
