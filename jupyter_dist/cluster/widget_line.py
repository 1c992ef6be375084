"""The line by which a notebook hears what widgets of ranks say, and speaks to them."""

import queue
import threading
from collections.abc import Sequence
from contextlib import closing
from time import monotonic
from typing import Protocol

from jupyter_dist.cluster.connection.connection import SLICE_S, Connection, raise_refusal
from jupyter_dist.control.dealer import AnswersLost
from jupyter_dist.control.poller import Poller, Waker
from jupyter_dist.errors import ClusterGone, DistError
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    CommAnswered,
    CommArrived,
    CommsEnded,
    CommsSeen,
    CommsSettled,
    FollowComms,
    SendComm,
    SettleComms,
)

SETTLED_WITHIN_S = 2.0
"""It takes a millisecond. Of a coordinator that is out of reach the next request tells."""
_SEEN_EVERY_BYTES = 1 << 20
_GONE = "the cluster has ended, or this notebook was detached from it"
_LOST = "messages of widgets were lost while the connection was cut; make the widgets again"


class WidgetWatcher(Protocol):
    """Something that shows widgets of ranks; called on the thread of the line."""

    def on_comm(self, message: CommArrived, buffers: Sequence[Frame]) -> None:
        """Take in what a comm says."""

    def on_answer(self, message: CommAnswered) -> None:
        """Take in that a process has done with what was sent to it."""

    def on_ended(self, engine: str, reason: str) -> None:
        """Take in that nothing more comes from this process (empty: from any), and why."""

    def on_tick(self) -> None:
        """Look at the clock; called at least every 0.1 s."""


class WidgetLine(threading.Thread):
    """Follows the comms of all ranks until the cluster ends, or lets go of us."""

    def __init__(self, line: Connection, watcher: WidgetWatcher) -> None:
        super().__init__(name="widgets-of-ranks", daemon=True)
        self._line, self._watcher = line, watcher
        self._outbox: queue.SimpleQueue[tuple[SendComm | SettleComms, Sequence[Frame]]] = (
            queue.SimpleQueue()
        )
        self._unsettled = False
        """Something was sent since it was asked last whether all is on its way."""
        self._asking: dict[str, threading.Event] = {}
        self._waker = Waker()
        self._is_over = False

    def send(self, message: SendComm, buffers: Sequence[Frame]) -> None:
        """Send a message of the page; from any thread, without waiting."""
        self._unsettled = True
        self._outbox.put((message, buffers))
        self._waker.wake()

    def settle(self) -> None:
        """Wait until what was sent is on its way to ranks: what they are asked for comes after it.

        So a cell that follows a click sees what the click has done. Where the coordinator is out of
        reach, or comms are followed no longer, it is not waited for.
        """
        if not self._unsettled or threading.current_thread() is self:
            return
        self._unsettled = False
        request, is_settled = SettleComms(self._line.new_request_id()), threading.Event()
        self._asking[request.request_id] = is_settled
        self._outbox.put((request, ()))
        self._waker.wake()
        deadline_s = monotonic() + SETTLED_WITHIN_S
        while self.is_alive() and monotonic() < deadline_s:
            if is_settled.wait(SLICE_S):
                return

    def run(self) -> None:
        """Follow; whatever ends that, the watcher is told why."""
        reason = "nothing is shown of it any more"
        try:
            with closing(self._line), self._line.lock:
                self._line.send(FollowComms(self._line.new_request_id()))
                self._serve()
        except AnswersLost:
            reason = _LOST
        except ClusterGone:
            reason = _GONE
        except DistError as problem:  # a refusal
            reason = str(problem)
        finally:
            self._waker.close()
            if not self._is_over:
                self._watcher.on_ended("", reason)

    def _serve(self) -> None:
        poller = Poller()
        poller.add(self._line)
        poller.add(self._waker)
        seen = 0
        while not self._is_over:
            poller.wait(SLICE_S)
            self._waker.clear()
            while not self._outbox.empty():
                self._line.send(*self._outbox.get())
            for message, buffers in self._line.receive(0.0, waits_out_breaks=True):
                if isinstance(message, CommArrived):
                    seen += len(message.content) + sum(map(len, buffers))
                    self._watcher.on_comm(message, buffers)
                elif isinstance(message, CommAnswered):
                    self._watcher.on_answer(message)
                elif isinstance(message, CommsSettled):
                    self._asking.pop(message.request_id).set()
                elif isinstance(message, CommsEnded):
                    self._is_over = not message.engine
                    self._watcher.on_ended(message.engine, message.reason)
                else:
                    raise_refusal(message)
            if seen >= _SEEN_EVERY_BYTES:
                self._line.send(CommsSeen(seen))
                seen = 0
            self._watcher.on_tick()
