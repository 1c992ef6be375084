"""One end of a conversation that outlives its connections: numbers, acknowledgements, resending."""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from jupyter_dist.protocol import host_agent_pb2 as pb

WINDOW_BYTES = 32 << 20
"""So much is sent without an acknowledgement, and kept for a next connection; more waits."""
ACKNOWLEDGE_AFTER = 4
"""Messages without an answer in which the acknowledgement could travel."""
ACKNOWLEDGE_BYTES = 4 << 20
Message = TypeVar("Message", pb.AgentEvent, pb.AgentCommand)


class Conversation(Generic[Message]):
    """What one end says and takes in, over one connection after the other; from any thread.

    `kind` is the class of the messages that this end says; they are copied, not changed.
    """

    def __init__(self, kind: type[Message]) -> None:
        self._kind: type[Message] = kind
        # Reentrant: the handler of a signal may say something while its thread does.
        self._changed = threading.Condition(threading.RLock())
        self._waiting: deque[Message] = deque()
        self._kept: deque[Message] = deque()
        """Sent, and not acknowledged; numbered without gaps."""
        self._kept_bytes = 0
        self._last = 0
        """Number of the last message that was sent."""
        self._taken = 0
        """Number of the last message that has come."""
        self._unanswered = self._unanswered_bytes = 0
        self._connection = 0
        self._is_over = False

    @property
    def kept_bytes(self) -> int:
        """Return the size of what was sent and is not acknowledged yet."""
        return self._kept_bytes

    def say(self, message: Message) -> None:
        """Send a message over the connection that there is, or the next one."""
        with self._changed:
            self._waiting.append(message)
            self._changed.notify_all()

    def end(self) -> None:
        """Say nothing after what was said so far: the connection's messages end with that."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def connect(self) -> int:
        """Begin with another connection and return its number; the one before is of no use."""
        with self._changed:
            self._connection += 1
            self._changed.notify_all()
            return self._connection

    def disconnect(self, connection: int) -> bool:
        """Take in that a connection has ended; return whether it was the one in use."""
        with self._changed:
            if connection != self._connection:
                return False
            self.connect()
            return True

    def outgoing(self, connection: int, opening: Message | None = None) -> Iterator[Message]:
        """Yield what is to be sent over this connection, until it is not in use any more.

        `opening` is sent first; it has no number. What was not acknowledged follows.
        """
        if opening is not None:
            opening.taken = self._taken
            yield opening
        sent = 0
        while (message := self._next(connection, sent)) is not None:
            sent = max(sent, message.number)
            yield message

    def take(self, connection: int, message: pb.AgentEvent | pb.AgentCommand) -> bool:
        """Take in a message; return whether it is new and has content, so is to be acted on."""
        with self._changed:
            if connection != self._connection:
                return False
            self._settle(message.taken)
            if message.number <= self._taken:  # a bare word has the number 0
                return False
            self._taken = message.number
            self._unanswered += 1
            self._unanswered_bytes += message.ByteSize()
            if self._owes_word():
                self._changed.notify_all()
            return True

    def _next(self, connection: int, sent: int) -> Message | None:
        with self._changed:
            while connection == self._connection:
                message = self._choose(sent)
                if message is not None:
                    message.taken = self._taken
                    self._unanswered = self._unanswered_bytes = 0
                    return message
                if self._is_over and not self._waiting:
                    return None
                self._changed.wait()
        return None

    def _choose(self, sent: int) -> Message | None:
        """Return what is next after message `sent`: again, for the first time, or a bare word."""
        if self._kept and self._kept[-1].number > sent:
            return self._kept[max(0, sent + 1 - self._kept[0].number)]
        if self._waiting and self._kept_bytes < WINDOW_BYTES:
            self._last += 1
            message = self._kind()
            message.CopyFrom(self._waiting.popleft())
            message.number = self._last
            self._kept.append(message)
            self._kept_bytes += message.ByteSize()
            return message
        return self._kind() if self._owes_word() else None

    def _settle(self, taken: int) -> None:
        """Forget what the other end has."""
        if not self._kept or self._kept[0].number > taken:
            return
        while self._kept and self._kept[0].number <= taken:
            self._kept.popleft()
        self._kept_bytes = sum(each.ByteSize() for each in self._kept)
        if self._waiting:
            self._changed.notify_all()

    def _owes_word(self) -> bool:
        return self._unanswered >= ACKNOWLEDGE_AFTER or self._unanswered_bytes >= ACKNOWLEDGE_BYTES
