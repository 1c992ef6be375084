"""Calls that were queued on the device and have not ended there yet."""

import threading
from collections import deque
from time import monotonic_ns
from typing import Any

import msgspec

from jupyter_dist.collective.call import Call
from jupyter_dist.collective.nccl.cuda import DONE, NOT_READY, Cuda
from jupyter_dist.collective.recorder import CollectiveRecorder

_LOOK_EACH = 256


class Queued(msgspec.Struct, gc=False):
    """One call on the device, between two events on its stream."""

    call: Call
    token: int
    """Of its record."""
    begun: int
    """Event: the stream has come to it."""
    ended: int
    """Event: it is done."""
    kept: Any
    """Arrays whose memory it uses, where nothing else keeps others from it."""


class Outstanding:
    """The calls of one communicator that are on the device, in their order.

    The main thread queues them; it and the link thread look after them.
    """

    def __init__(self, cuda: Cuda, recorder: CollectiveRecorder | None) -> None:
        self.problem = ""
        """What is wrong with the device, if anything is."""
        self._cuda = cuda
        self._recorder = recorder
        self._calls: deque[Queued] = deque()
        self._looking = threading.Lock()
        self._watched = -1
        """Record of the first call, once the stream has come to it, and"""
        self._reached_ns = 0
        """when that was."""
        self._lost: list[Any] = []
        """What an aborted call may still write to."""

    def __len__(self) -> int:
        """Count them."""
        return len(self._calls)

    def add(self, queued: Queued) -> None:
        """Take in a call whose two events are recorded."""
        calls = self._calls
        calls.append(queued)
        # So that neither calls nor memory pile up between two looks of the link thread.
        if queued.kept is not None or not len(calls) % _LOOK_EACH:
            self.look()

    def look(self) -> None:
        """Take note of what has ended, from any thread."""
        calls, recorder, cuda = self._calls, self._recorder, self._cuda
        query, time_of, give_back = cuda.query, cuda.time_of, cuda.give_back
        with self._looking:
            now_ns = monotonic_ns()
            while calls and not self.problem:
                first = calls[0]
                status = query(first.ended)
                if status == NOT_READY:
                    return
                if status != DONE:
                    self.problem = self._cuda.explain(status)
                    return
                calls.popleft()
                if recorder is not None:
                    recorder.end(first.token, True, time_of(first.ended, now_ns))
                give_back(first.begun, first.ended)
                self._watched = -1

    def give_up(self) -> Call | None:
        """Take what is outstanding as failed; give the first such call, None if all have ended."""
        self.look()
        with self._looking:
            lost = self._calls[0].call if self._calls else None
            while self._calls:
                self._lost.append(self._calls[0].kept)
                queued = self._calls.popleft()
                if self._recorder is not None:
                    self._recorder.end(queued.token, False)
                self._cuda.give_back(queued.begun, queued.ended)
        return lost

    def find_overdue(self, now_ns: int, timeout_s: float) -> Call | None:
        """Give the call that the device has been at for longer than that."""
        with self._looking:
            if not self._calls:
                return None
            first = self._calls[0]
            if first.begun != self._watched:
                if self._cuda.query(first.begun) != DONE:
                    return None
                self._watched, self._reached_ns = (
                    first.begun,
                    self._cuda.time_of(first.begun, now_ns),
                )
            return first.call if now_ns - self._reached_ns > timeout_s * 1e9 else None
