"""Calls that were queued on the device and have not ended there yet."""

import threading
from collections import deque
from time import monotonic_ns
from typing import Any

import msgspec

from jupyter_dist.collective.calls.call import Call
from jupyter_dist.collective.nccl.cuda import DONE, Cuda
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.cuda_driver import NOT_READY
from jupyter_dist.model.ranks.held_time import HeldTime

_LOOK_EACH = 256
_LEAST_SILENCE_S = 1.0
"""A driver that answers later than this is stuck, and not only busy."""


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
    reached_ns: int = 0
    """When the stream had come to it; 0: not yet, as far as is known."""


class Outstanding:
    """The calls of one communicator that are on the device, in their order.

    The main thread queues them; it and the watcher look after them. Only looking waits for the
    driver: all else is for the link thread too, also while a look does not return.
    """

    def __init__(self, cuda: Cuda, recorder: CollectiveRecorder | None) -> None:
        self.problem = ""
        """What is wrong with the device, if anything is."""
        self._cuda = cuda
        self._recorder = recorder
        self._calls: deque[Queued] = deque()
        self._looking = threading.Lock()
        self._taking = threading.Lock()
        """Never held while the driver is asked."""
        self._asked_ns = 0
        """When the driver was asked what it has not answered yet; 0: it has."""
        self._lost: list[Any] = []
        """What an aborted call may still write to."""

    def __len__(self) -> int:
        """Count them."""
        return len(self._calls)

    def add(self, queued: Queued) -> None:
        """Take in a call whose two events are recorded."""
        calls = self._calls
        calls.append(queued)
        # So that neither calls nor memory pile up between two looks of the watcher.
        if queued.kept is not None or not len(calls) % _LOOK_EACH:
            self.look()

    def look(self, *, is_patient: bool = False) -> None:
        """Take note of what has ended; while another thread looks, only if `is_patient`."""
        if not self._looking.acquire(blocking=is_patient):
            return
        try:
            with self._cuda.relaxed():
                self._look()
        except Exception as error:  # noqa: BLE001  (it would end the watcher)
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            self._asked_ns = 0
            self._looking.release()

    def _look(self) -> None:
        recorder, cuda = self._recorder, self._cuda
        while (first := self._first()) is not None and not self.problem:
            now_ns = self._asked_ns = monotonic_ns()
            status = cuda.query(first.ended)
            if status == NOT_READY:
                if not first.reached_ns and cuda.query(first.begun) == DONE:
                    first.reached_ns = cuda.time_of(first.begun, now_ns)
                return
            if status != DONE:
                self.problem = cuda.explain(status)
                return
            ended_ns = cuda.time_of(first.ended, now_ns)
            if not self._take(first):
                return
            if recorder is not None:
                recorder.end(first.token, True, ended_ns)
            cuda.give_back(first.begun, first.ended)

    def _first(self) -> Queued | None:
        try:
            return self._calls[0]
        except IndexError:
            return None

    def _take(self, first: Queued) -> bool:
        """Take this call away, unless it was given up while the driver was asked."""
        with self._taking:
            is_there = self._first() is first
            if is_there:
                self._calls.popleft()
            return is_there

    def give_up(self) -> Call | None:
        """Take what is outstanding as failed; return the first such call, None if there is none."""
        with self._taking:
            given_up = list(self._calls)
            self._calls.clear()
        for queued in given_up:
            self._lost.append(queued.kept)
            if self._recorder is not None:
                self._recorder.end(queued.token, False)
            self._cuda.give_back(queued.begun, queued.ended)
        return given_up[0].call if given_up else None

    def find_overdue(
        self, now_ns: int, timeout_s: float, held: HeldTime
    ) -> tuple[Call, bool] | None:
        """Return the call that the device has been at for longer than that, and if that is known.

        It is not where the driver has not answered for as long: then the call may wait for others.
        The time in which ranks were in a debugger does not count.
        """
        first = self._first()
        if first is None:
            return None
        if first.reached_ns:
            waited_s = _waited_s(first.reached_ns, now_ns, held)
            return (first.call, True) if waited_s > timeout_s else None
        silent_s = _waited_s(self._asked_ns, now_ns, held) if self._asked_ns else 0.0
        return (first.call, False) if silent_s > max(timeout_s, _LEAST_SILENCE_S) else None


def _waited_s(since_ns: int, now_ns: int, held: HeldTime) -> float:
    since_s, now_s = since_ns / 1e9, now_ns / 1e9
    return now_s - since_s - held.held_s(since_s, now_s)
