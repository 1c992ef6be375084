"""One operation after another: their numbers, their record, and what a bad end does."""

import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from jupyter_dist.collective.call import Array, Call, shape_text
from jupyter_dist.collective.connections import Connections, Stopped
from jupyter_dist.collective.flow import Flow, as_bytes
from jupyter_dist.collective.handshake import Membership
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.collective.wire import Breakage
from jupyter_dist.errors import CommunicatorError
from jupyter_dist.model.rank import name_ranks

_OTHER_THREAD_PATIENCE_S = 1.0

End = tuple[Array, int]
"""One end of a message: its array and the rank on the other side."""


class Operations:
    """Carry out operations of one communicator until one breaks it."""

    def __init__(
        self,
        me: Membership,
        listener: socket.socket,
        peers: Sequence[str],
        recorder: CollectiveRecorder | None,
    ) -> None:
        self.participants: frozenset[int] | None = None
        self.timeout_s = 60.0
        self._me = me
        self._recorder = recorder
        if me.size == 1:
            listener.close()
        self._links = Connections(None if me.size == 1 else listener, me, peers)
        self._sequence = 0
        self._sent_to: dict[int, int] = defaultdict(int)
        self._received_from: dict[int, int] = defaultdict(int)
        self._to_self: deque[Array] = deque()
        self._breakage: Breakage | None = None
        self._inside = threading.Lock()

    def next_call(
        self, operation: str, array: Array | None = None, reduction: str = "", root: int = -1
    ) -> Call:
        """Give a collective its number; raise CommunicatorError when it cannot take place."""
        self._check_whole(operation)
        self._check_intact()
        self._sequence += 1
        if array is None:
            return Call(operation, self._sequence)
        shape = shape_text(array.shape)
        return Call(operation, self._sequence, array.dtype.str, shape, reduction, root)

    def collect(self, call: Call, algorithm: Callable[[Flow], None]) -> None:
        """Carry out a collective; raise the communicator's error when it breaks."""
        self._carry_out(call, algorithm)

    def pass_on(self, operation: str, sent: End | None, received: End | None) -> None:
        """Send the one array and fill the other, both at once."""
        ends = [end for end in (sent, received) if end is not None]
        self._check_taking_part(operation, [peer for _array, peer in ends])
        self._check_intact()
        if sent is not None and sent[1] == self._me.rank:
            self._to_self.append(sent[0].copy())
            sent = None
        if received is not None and received[1] == self._me.rank:
            self._take_from_self(received[0])
            received = None
        outward = inward = None
        if sent is not None:
            self._sent_to[sent[1]] += 1
            outward = _message("send", self._sent_to[sent[1]], sent[0], sent[1])
        if received is not None:
            self._received_from[received[1]] += 1
            number = self._received_from[received[1]]
            inward = _message("send", number, received[0], self._me.rank)
        shown = outward or inward
        if shown is None:
            return
        array, peer = ends[0]
        call = _message(operation, shown.sequence, array, peer)

        def algorithm(flow: Flow) -> None:
            if sent is not None and outward is not None:
                data = as_bytes(sent[0])
                flow.open(sent[1], data.nbytes, outward)
                flow.send(sent[1], data)
            if received is not None and inward is not None:
                data = as_bytes(received[0])
                flow.expect(received[1], data.nbytes, [(data, None)], inward)
            flow.run()

        self._carry_out(call, algorithm)

    def abort(self, failed_rank: int, reason: str) -> None:
        """Break the communicator from any thread."""
        breakage = Breakage("failed", failed_rank, reason)
        self._links.abort(breakage)
        # Whoever is inside an operation tears down by itself.
        if self._inside.acquire(blocking=False):
            try:
                self._fall_apart(breakage)
            finally:
                self._inside.release()

    def close(self) -> None:
        """Close every connection."""
        text = "closed its communicator"
        self._breakage = self._breakage or Breakage("left", self._me.rank, text)
        self._links.close()

    def _carry_out(self, call: Call, algorithm: Callable[[Flow], None]) -> None:
        if not self._inside.acquire(timeout=_OTHER_THREAD_PATIENCE_S):
            raise CommunicatorError(
                f"{call.operation} was called while another thread is inside a collective. "
                "Call collectives from one thread."
            )
        recorder = self._recorder
        token = -1
        try:
            self._check_intact()
            if recorder is not None:
                token = recorder.begin(call)
            algorithm(Flow(self._links, call, self.timeout_s))
        except Stopped as stop:
            raise self._stopped(stop, call) from None
        except CommunicatorError:
            raise
        except BaseException as error:
            self._fall_apart(Breakage("left", self._me.rank, _how_it_left(error, call)))
            raise
        finally:
            if recorder is not None and token >= 0:
                recorder.end(token)
            self._inside.release()

    def _stopped(self, stop: Stopped, call: Call) -> CommunicatorError:
        breakage = Breakage("left", self._me.rank, f"was interrupted during {call}")
        try:
            breakage = self._links.settle(stop)
        finally:
            self._fall_apart(breakage)
        return breakage.error(self._me.rank)

    def _fall_apart(self, breakage: Breakage) -> None:
        if self._breakage is None:
            self._breakage = breakage
        self._links.leave(self._breakage)

    def _take_from_self(self, room: Array) -> None:
        if not self._to_self:
            raise CommunicatorError(
                f"rank {self._me.rank} receives from itself but has sent itself nothing. "
                "Send first."
            )
        sent = self._to_self[0]
        if (sent.shape, sent.dtype) != (room.shape, room.dtype):
            raise CommunicatorError(
                f"rank {self._me.rank} sent itself {sent.dtype}{list(sent.shape)} but receives "
                f"{room.dtype}{list(room.shape)}. Pass a template like what was sent."
            )
        np.copyto(room, self._to_self.popleft())

    # --- what is checked before anything is sent ---------------------------------------------

    def _check_intact(self) -> None:
        if self._breakage is not None:
            raise self._breakage.error(self._me.rank)

    def _check_whole(self, operation: str) -> None:
        if self.participants is not None and len(self.participants) < self._me.size:
            raise CommunicatorError(
                f"this cell runs on {name_ranks(self.participants)} only; {operation} needs all "
                f"{self._me.size} ranks. Run the cell on all of them, or use send and recv."
            )

    def _check_taking_part(self, operation: str, peers: Iterable[int]) -> None:
        absent = [] if self.participants is None else sorted(set(peers) - self.participants)
        if absent:
            raise CommunicatorError(
                f"this cell runs on {name_ranks(self.participants or ())} only; {operation} cannot "
                f"reach {name_ranks(absent)}. Run the cell on all ranks that take part."
            )


def _message(operation: str, number: int, array: Array, peer: int) -> Call:
    return Call(operation, number, array.dtype.str, shape_text(array.shape), root=peer)


def _how_it_left(error: BaseException, call: Call) -> str:
    if isinstance(error, KeyboardInterrupt):
        return f"was interrupted during {call}"
    return f"left {call} with {type(error).__name__}: {error}"
