"""What communicators of host memory do besides collectives: messages, groups of calls, the end."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from jupyter_dist.collective import arguments
from jupyter_dist.collective.arrays import host_view
from jupyter_dist.collective.breakage import Breakage
from jupyter_dist.collective.call import Array, Call, Signature
from jupyter_dist.collective.children import Children
from jupyter_dist.collective.journal import Journal
from jupyter_dist.collective.objects import ObjectCollectives
from jupyter_dist.collective.room import Room
from jupyter_dist.collective.transport import HostTransport, Message
from jupyter_dist.errors import CommunicatorError, UsageError


class _End(NamedTuple):
    """One end of a message, which gets its number when it travels."""

    signature: Signature
    array: Array
    peer: int


LONGEST_TIMEOUT_S = 1e8
"""Three years: what every timer takes."""


class Exchange:
    """Messages that travel together, and what is to be done when they have."""

    def __init__(self) -> None:
        self.sent: list[_End] = []
        self.received: list[_End] = []
        self.then: list[Callable[[], None]] = []
        self.collectives: list[tuple[Signature, Callable[[Call], None]]] = []


class HostMessages(ObjectCollectives):
    """The part of HostCommunicator that is not a collective."""

    def __init__(self, journal: Journal, transport: HostTransport) -> None:
        group = journal.group
        self.rank = group.rank
        self.size = group.size
        self.generation = group.generation
        self.kind = transport.kind
        self.world_ranks = group.members
        self.group_label = group.label
        self.control = journal.control
        self.recorder = journal.recorder
        self._journal = journal
        self._transport = transport
        self._to_self: deque[Array] = deque()
        self._grouped: Exchange | None = None
        self._groups = 0
        self._children: Children[HostMessages] = Children()
        self._parent: HostMessages | None = None
        """Through it an abort of all reaches this one."""

    # --- what holds for every call -----------------------------------------------------------

    @property
    def timeout_s(self) -> float:
        """Deadline for each operation in seconds, here and in what is split off."""
        return self._journal.scope.timeout_s

    @timeout_s.setter
    def timeout_s(self, seconds: float) -> None:
        if not 0 < seconds <= LONGEST_TIMEOUT_S:
            raise UsageError(
                f"timeout_s={seconds!r} is not accepted. Accepted: more than 0 and at most "
                f"{LONGEST_TIMEOUT_S:g} s."
            )
        self._journal.scope.timeout_s = seconds

    @property
    def check(self) -> bool:
        """Ranks compare each collective before they begin it, here and in what is split off."""
        return self._journal.scope.is_checked

    @check.setter
    def check(self, is_wanted: bool) -> None:
        self._journal.scope.is_checked = bool(is_wanted)

    @property
    def participants(self) -> frozenset[int] | None:
        """The ranks that run the current cell; None means all."""
        return self._journal.participants

    @participants.setter
    def participants(self, ranks: frozenset[int] | None) -> None:
        members = self._journal.group.members
        self._journal.scope.participants = (
            None if ranks is None else frozenset(members[rank] for rank in ranks)
        )

    @property
    def journal(self) -> Journal:
        """The order of its calls, and what broke it."""
        return self._journal

    @property
    def stream(self) -> None:
        """CUDA stream of the calls; host memory has none, and every call waits for its end."""
        return None

    @stream.setter
    def stream(self, given: Any) -> None:
        arguments.check_no_stream("comm", given)

    def __repr__(self) -> str:
        group = self._journal.group
        where = f"group {group.label}, " if group.label else ""
        return f"<{self.kind} communicator: {where}rank {self.rank} of {self.size}>"

    # --- messages ----------------------------------------------------------------------------

    def send(self, array: ArrayLike, dest: int, *, stream: Any = None) -> None:
        """Send to one rank, which calls recv; return when the data is on its way."""
        arguments.check_no_stream("send", stream)
        dest = arguments.peer("send", "dest", dest, self.size)
        exchange = Exchange()
        self._add_sent(exchange, "send", array, dest)
        self._pass_on("send", exchange, None)

    def recv(self, array_or_template: ArrayLike, source: int, *, stream: Any = None) -> Any:
        """Receive from one rank; a writable array is filled and returned, else a new one is."""
        arguments.check_no_stream("recv", stream)
        source = arguments.peer("recv", "source", source, self.size)
        exchange = Exchange()
        room = self._add_received(exchange, "recv", array_or_template, source)
        return self._pass_on("recv", exchange, room)

    def send_recv(
        self,
        send_array: ArrayLike,
        dest: int,
        recv_array: ArrayLike,
        source: int,
        *,
        stream: Any = None,
    ) -> Any:
        """Send to one rank while receiving from another (or the same), as in a halo exchange."""
        arguments.check_no_stream("send_recv", stream)
        dest = arguments.peer("send_recv", "dest", dest, self.size)
        source = arguments.peer("send_recv", "source", source, self.size)
        exchange = Exchange()
        self._add_sent(exchange, "send_recv", send_array, dest)
        room = self._add_received(exchange, "send_recv", recv_array, source)
        return self._pass_on("send_recv", exchange, room)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Begin all calls inside together when the block ends: no order of messages can hang.

        Results are there after the block, so no call may use what another one of it fills. A
        block that raises sends nothing.
        """
        if self._grouped is not None:
            raise UsageError("comm.group() is open already. Close it before opening another one.")
        self._grouped = grouped = Exchange()
        try:
            yield
        finally:
            self._grouped = None
        self._run_exchange("group", grouped)
        for signature, move in grouped.collectives:
            self._run(signature, move)

    # --- the end -----------------------------------------------------------------------------

    def look(self) -> None:
        """Do nothing: calls have ended when they return."""

    def settle(self) -> None:
        """Do nothing: calls have ended when they return."""

    def lost_error(self) -> None:
        """Give None: every call raises its own errors."""

    def abort(self, failed_rank: int, reason: str) -> None:
        """Break it, and what was split off, from any thread: who waits raises PeerFailed at once.

        `failed_rank` is a rank of the cluster.
        """
        breakage = Breakage("failed", failed_rank, reason)
        self._transport.abort(breakage)
        self._journal.break_if_idle(breakage)
        for child in self._children:
            child.abort(failed_rank, reason)

    def close(self) -> None:
        """Release everything, of what was split off as well; again changes nothing."""
        for child in self._children:
            child.close()
        self._children.release_dropped()
        self._journal.forget()
        self._transport.close()

    def _release_when_dropped(self) -> Callable[[], None]:
        """Return what releases all that this one has, without knowing it."""
        rank = self._journal.group.world_rank
        return partial(_release, self._transport, self._children, rank)

    # --- how it is done ----------------------------------------------------------------------

    def _do(self, signature: Signature, move: Callable[[Call], None], room: Room | None) -> None:
        """Carry out a collective now, or put it off until the group's end."""
        if self._grouped is None:
            self._run(signature, move)
            return
        self._journal.check_possible(signature.operation)
        _check_filled_later(room)
        self._grouped.collectives.append((signature, move))

    def _run(self, signature: Signature, move: Callable[[Call], None]) -> None:
        journal = self._journal
        journal.enter(signature.operation)
        try:
            call = journal.number(signature)
            self._carry_out(call, lambda: move(call))
        finally:
            journal.leave()

    def _carry_out(
        self, call: Call, action: Callable[[], None], *, is_message: bool = False
    ) -> None:
        def enter_and_act() -> None:
            recorder = self._journal.recorder
            site = recorder.site if recorder is not None else ""
            self._transport.enter(self.timeout_s, site)
            action()

        self._journal.carry_out(call, enter_and_act, is_message=is_message)

    def _add_sent(self, exchange: Exchange, operation: str, given: Any, dest: int) -> None:
        array, _library = arguments.numbers(operation, given)
        self._journal.check_taking_part(operation, [dest])
        exchange.sent.append(_End(self._journal.sign("send", array, root=dest), array, dest))

    def _add_received(
        self, exchange: Exchange, operation: str, given: Any, source: int
    ) -> Callable[[], Any]:
        """Plan to receive; give what tells the caller's answer."""
        template, library = arguments.numbers(operation, given)
        self._journal.check_taking_part(operation, [source])
        view = host_view(given)
        room = Room(np.empty_like(template), None, library)
        signature = self._journal.sign("send", template, root=self.rank)
        exchange.received.append(_End(signature, room.view, source))
        if view is None or not view.flags.writeable:
            if self._grouped is not None:
                _check_filled_later(room)
            return room.answer
        exchange.then.append(lambda: np.copyto(view, room.view))
        return lambda: given

    def _pass_on(self, operation: str, exchange: Exchange, answer: Callable[[], Any] | None) -> Any:
        grouped = self._grouped
        if grouped is None:
            self._run_exchange(operation, exchange)
        else:
            self._journal.check_intact()
            grouped.sent += exchange.sent
            grouped.received += exchange.received
            grouped.then += exchange.then
        return None if answer is None else answer()

    def _run_exchange(self, operation: str, exchange: Exchange) -> None:
        self._to_self = self._pass_to_self(exchange)
        sent = [end for end in exchange.sent if end.peer != self.rank]
        received = [end for end in exchange.received if end.peer != self.rank]
        if sent or received:
            with self._journal.turn(operation):
                self._travel(operation, sent, received)
        for action in exchange.then:
            action()

    def _travel(self, operation: str, sent: Sequence[_End], received: Sequence[_End]) -> None:
        journal, label = self._journal, self._journal.group.label
        outward = [
            Message(journal.number_sent(end.signature, end.peer), end.array, end.peer)
            for end in sent
        ]
        inward = [
            Message(journal.number_received(end.signature, end.peer), end.array, end.peer)
            for end in received
        ]
        if operation == "group":
            self._groups += 1
            nbytes = sum(end.array.nbytes for end in (*sent, *received))
            call = Call(Signature("group", nbytes=nbytes, group=label), self._groups)
        else:
            first = (outward or inward)[0]
            shown = msgspec.structs.replace(
                first.call.signature, operation=operation, root=first.peer
            )
            call = Call(shown, first.call.sequence)
        self._carry_out(
            call, lambda: self._transport.exchange(call, outward, inward), is_message=True
        )

    def _pass_to_self(self, exchange: Exchange) -> deque[Array]:
        """Receive what this rank sends itself; give what stays for later."""
        waiting = deque(self._to_self)
        waiting.extend(end.array.copy() for end in exchange.sent if end.peer == self.rank)
        for end in exchange.received:
            if end.peer == self.rank:
                self._take(waiting, end.array)
        return waiting

    def _take(self, waiting: deque[Array], room: Array) -> None:
        if not waiting:
            raise CommunicatorError(
                f"rank {self.rank} receives from itself but has sent itself nothing. Send first."
            )
        sent = waiting[0]
        if (sent.shape, sent.dtype) != (room.shape, room.dtype):
            raise CommunicatorError(
                f"rank {self.rank} sent itself {sent.dtype}{list(sent.shape)} but receives "
                f"{room.dtype}{list(room.shape)}. Pass a template like what was sent."
            )
        np.copyto(room, waiting.popleft())


def _release(transport: HostTransport, children: Children[HostMessages], rank: int) -> None:
    """Release what a communicator that was dropped had; peers that call it later are told so."""
    children.release_dropped()
    transport.leave(Breakage("left", rank, "has dropped this communicator"))
    transport.close()


def _check_filled_later(room: Room | None) -> None:
    if room is not None and not room.library.is_view:
        raise UsageError(
            f"inside comm.group() results come later, which {room.library.name} cannot show. "
            "Pass numpy, torch or CuPy arrays, or make the call outside the group."
        )
