"""Messages between two ranks, in whatever memory: planned one by one, numbered when they travel."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.calls.arguments import peer
from jupyter_dist.collective.calls.call import Call, Message, Signature
from jupyter_dist.errors import CommunicatorError, UsageError


class End(NamedTuple):
    """One end of a message, which gets its number when it travels."""

    signature: Signature
    array: Any
    peer: int


class Exchange:
    """Messages that travel together, and what is to be done when they have."""

    def __init__(self) -> None:
        self.sent: list[End] = []
        self.received: list[End] = []
        self.then: list[Callable[[], None]] = []

    def take_in(self, other: "Exchange") -> None:
        """Let the messages of another exchange travel with these."""
        self.sent += other.sent
        self.received += other.received
        self.then += other.then

    def find_nbytes(self) -> int:
        """Return how many bytes travel, there and back."""
        return sum(end.array.nbytes for end in (*self.sent, *self.received))


class Messages:
    """The messages of one rank in one communicator: their numbers, and those to itself."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self._groups = 0
        self.to_self: deque[Any] = deque()
        """What this rank has sent itself and not received."""

    def number(
        self, operation: str, exchange: Exchange
    ) -> tuple[Call, list[Message], list[Message]]:
        """Number messages that travel now; return what they are together, those sent, the others.

        A group is counted for itself, anything else shown as its first message.
        """
        log = self._log
        sent = [
            Message(log.number_sent(end.signature, end.peer), end.array, end.peer)
            for end in exchange.sent
        ]
        received = [
            Message(log.number_received(end.signature, end.peer), end.array, end.peer)
            for end in exchange.received
        ]
        if operation == "group":
            self._groups += 1
            meant = Signature("group", nbytes=exchange.find_nbytes(), group=log.group.label)
            return Call(meant, self._groups), sent, received
        first = (sent or received)[0]
        meant = msgspec.structs.replace(first.call.signature, operation=operation, root=first.peer)
        return Call(meant, first.call.sequence), sent, received

    def pass_to_self(
        self, exchange: Exchange, copy: Callable[[Any], Any], fill: Callable[[Any, Any], None]
    ) -> Exchange:
        """Receive what this rank sends itself; return the messages with others.

        `fill` takes room and what comes there. Raises CommunicatorError, with nothing sent.
        """
        rank = self._log.group.rank
        waiting = deque(self.to_self)
        waiting.extend(copy(end.array) for end in exchange.sent if end.peer == rank)
        for end in exchange.received:
            if end.peer == rank:
                _check_fits(rank, waiting, end.array)
                fill(end.array, waiting.popleft())
        self.to_self = waiting
        others = Exchange()
        others.sent = [end for end in exchange.sent if end.peer != rank]
        others.received = [end for end in exchange.received if end.peer != rank]
        return others


class MessageCalls:
    """The calls for messages, of whatever memory: what each sends and receives is one exchange.

    Who has these calls plans an exchange (`_add_sent`, and `_add_received`, which gives what tells
    the caller's answer), and carries it out now or at the end of a group (`_pass_on`).
    """

    def send(self: Any, array: Any, dest: int) -> None:
        """Send to one rank, which calls recv; return when the data is on its way, or queued."""
        dest = peer("send", "dest", dest, self.size)
        exchange = Exchange()
        self._add_sent(exchange, "send", array, dest)
        self._pass_on("send", exchange)

    def recv(self: Any, array_or_template: Any, source: int) -> Any:
        """Receive from one rank; a writable array is filled and returned, else a new one is."""
        source = peer("recv", "source", source, self.size)
        exchange = Exchange()
        answer = self._add_received(exchange, "recv", array_or_template, source)
        self._pass_on("recv", exchange)
        return answer()

    def send_recv(self: Any, send_array: Any, dest: int, recv_array: Any, source: int) -> Any:
        """Send to one rank while receiving from another (or the same), as in a halo exchange."""
        dest = peer("send_recv", "dest", dest, self.size)
        source = peer("send_recv", "source", source, self.size)
        exchange = Exchange()
        self._add_sent(exchange, "send_recv", send_array, dest)
        answer = self._add_received(exchange, "send_recv", recv_array, source)
        self._pass_on("send_recv", exchange)
        return answer()


def _check_fits(rank: int, waiting: deque[Any], output: Any) -> None:
    """Raise CommunicatorError unless what comes next from this rank itself fits there."""
    if not waiting:
        raise CommunicatorError(
            f"rank {rank} receives from itself but has sent itself nothing. Send first."
        )
    sent = waiting[0]
    if (sent.shape, sent.dtype) != (output.shape, output.dtype):
        raise CommunicatorError(
            f"rank {rank} sent itself {sent.dtype}{list(sent.shape)} but receives "
            f"{output.dtype}{list(output.shape)}. Pass a template like what was sent."
        )


def check_filled_later(is_filled_later: bool, library: str) -> None:
    """Raise UsageError for a library whose arrays cannot be filled after they are given out."""
    if not is_filled_later:
        raise UsageError(
            f"inside comm.group() results come later, which {library} cannot show. "
            "Pass numpy, torch or CuPy arrays, or make the call outside the group."
        )
