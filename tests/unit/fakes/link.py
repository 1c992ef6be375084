"""A link whose other end is a function: what is posted is answered by another thread."""

import queue
import threading
from collections.abc import Callable, Sequence

from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import Message

Respond = Callable[[Message, Sequence[Frame]], None]


class FakeLink:
    """Keeps what is posted, and lets `respond` see it on a thread of its own."""

    def __init__(self) -> None:
        self.posted: list[tuple[Message, list[Frame]]] = []
        self.respond: Respond = lambda _message, _frames: None
        self._queue: queue.SimpleQueue[tuple[Message, Sequence[Frame]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def post(self, message: Message, frames: Sequence[Frame] = ()) -> None:
        self.posted.append((message, list(frames)))
        self._queue.put((message, frames))

    def said(self, kind: type) -> list:
        """Messages of one kind."""
        return [message for message, _ in self.posted if isinstance(message, kind)]

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join(5)

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            self.respond(*item)
