"""What communicators of host memory do besides collectives: messages, groups of calls, the end."""

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from jupyter_dist.collective.base import BaseCommunicator
from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.calls import arguments
from jupyter_dist.collective.calls.arrays import host_view
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.calls.output_buffer import OutputBuffer
from jupyter_dist.collective.exchange import (
    End,
    Exchange,
    MessageCalls,
    Messages,
    check_filled_later,
)
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.errors import UsageError


class _Grouped(Exchange):
    """Calls that wait for the end of their group."""

    def __init__(self) -> None:
        super().__init__()
        self.collectives: list[tuple[Signature, Callable[[Call], None]]] = []


class Children:
    """Communicators that were split off, for as long as a program has them.

    A rank may drop one while others are still in their last call there. So nothing is released
    before all members of the parent have met once more, as they do to split again.
    """

    def __init__(self) -> None:
        self._known: list[weakref.ref[HostMessages]] = []
        self._dropped: deque[Callable[[], None]] = deque()

    def __iter__(self) -> Iterator["HostMessages"]:
        """Return those that are still there; also while others are added on another thread."""
        for known in self._known:
            child = known()
            if child is not None:
                yield child

    def add(self, child: "HostMessages", release: Callable[[], None]) -> None:
        """Take note of one; `release`, which must not know it, is for when it was dropped."""
        # Garbage is collected on any thread, which must not wait.
        weakref.finalize(child, self._dropped.append, release).atexit = False
        self._known = [known for known in self._known if known() is not None]
        self._known.append(weakref.ref(child))

    def release_dropped(self) -> None:
        """Release what programs have dropped, when all members have met since; or in the end."""
        while self._dropped:
            self._dropped.popleft()()


class HostMessages(MessageCalls, BaseCommunicator):
    """The part of HostCommunicator that is not a collective."""

    def __init__(self, log: CallLog, transport: RingTransport) -> None:
        super().__init__(log)
        self.kind = transport.kind
        self._transport = transport
        self._messages = Messages(log)
        self._grouped: _Grouped | None = None
        self._children = Children()
        self._parent: HostMessages | None = None
        """Through it an abort of all reaches this one."""

    @property
    def stream(self) -> None:
        """CUDA stream of the calls; host memory has none, and every call waits for its end."""
        return None

    @stream.setter
    def stream(self, given: Any) -> None:
        if given is not None:
            arguments.refuse_stream("comm", given)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Begin all calls inside together when the block ends: no order of messages can hang.

        Results are there after the block, so no call may use what another one of it fills. A
        block that raises sends nothing.
        """
        if self._grouped is not None:
            raise UsageError("comm.group() is open already. Close it before opening another one.")
        self._grouped = grouped = _Grouped()
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

    settle = lost_error = look

    def abort(self, failed_rank: int, reason: str) -> None:
        """Break it, and what was split off, from any thread: who waits raises PeerFailed at once.

        `failed_rank` is a rank of the cluster.
        """
        breakage = Breakage("failed", failed_rank, reason)
        self._transport.abort(breakage)
        self.log.break_if_idle(breakage)
        for child in self._children:
            child.abort(failed_rank, reason)

    def close(self) -> None:
        """Release everything, of what was split off as well; again changes nothing."""
        for child in self._children:
            child.close()
        self._children.release_dropped()
        self.log.forget()
        self._transport.close()

    def _release_when_dropped(self) -> Callable[[], None]:
        """Return what releases all that this one has, without knowing it."""
        rank = self.log.group.world_rank
        return partial(_release, self._transport, self._children, rank)

    # --- how it is done ----------------------------------------------------------------------

    def _do(
        self, signature: Signature, move: Callable[[Call], None], output: OutputBuffer | None
    ) -> None:
        """Carry out a collective now, or put it off until the group's end."""
        if self._grouped is None:
            self._run(signature, move)
            return
        self.log.check_possible(signature.operation)
        if output is not None:
            check_filled_later(output.library.is_view, output.library.name)
        self._grouped.collectives.append((signature, move))

    def _run(self, signature: Signature, move: Callable[[Call], None]) -> None:
        log = self.log
        log.enter(signature.operation)
        try:
            call = log.number(signature)
            self._carry_out(call, lambda: move(call))
        finally:
            log.leave()

    def _carry_out(
        self, call: Call, action: Callable[[], None], *, is_message: bool = False
    ) -> None:
        def enter_and_act() -> None:
            recorder = self.log.recorder
            site = recorder.site if recorder is not None else ""
            self._transport.enter(self.timeout_s, site)
            action()

        self.log.carry_out(call, enter_and_act, is_message=is_message)

    def _add_sent(self, exchange: Exchange, operation: str, given: Any, dest: int) -> None:
        array, _library = arguments.numbers(operation, given)
        self.log.check_taking_part(operation, [dest])
        exchange.sent.append(End(self.log.sign("send", array, root=dest), array, dest))

    def _add_received(
        self, exchange: Exchange, operation: str, given: Any, source: int
    ) -> Callable[[], Any]:
        template, library = arguments.numbers(operation, given)
        self.log.check_taking_part(operation, [source])
        view = host_view(given)
        output = OutputBuffer(np.empty_like(template), None, library)
        signature = self.log.sign("send", template, root=self.rank)
        exchange.received.append(End(signature, output.view, source))
        if view is None or not view.flags.writeable:
            if self._grouped is not None:
                check_filled_later(library.is_view, library.name)
            return output.answer
        exchange.then.append(lambda: np.copyto(view, output.view))
        return lambda: given

    def _pass_on(self, operation: str, exchange: Exchange) -> None:
        grouped = self._grouped
        if grouped is None:
            self._run_exchange(operation, exchange)
        else:
            self.log.check_intact()
            grouped.take_in(exchange)

    def _run_exchange(self, operation: str, exchange: Exchange) -> None:
        others = self._messages.pass_to_self(exchange, np.copy, np.copyto)
        if others.sent or others.received:
            with self.log.turn(operation):
                call, sent, received = self._messages.number(operation, others)
                self._carry_out(
                    call, lambda: self._transport.exchange(call, sent, received), is_message=True
                )
        for action in exchange.then:
            action()


def _release(transport: RingTransport, children: Children, rank: int) -> None:
    """Release what a communicator that was dropped had; peers that call it later are told so."""
    children.release_dropped()
    transport.leave(Breakage("left", rank, "has dropped this communicator"))
    transport.close()
