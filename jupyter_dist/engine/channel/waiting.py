"""The one thread of a rank that waits for an answer of the coordinator, and what wakes it."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple

from jupyter_dist.errors import CommunicatorError
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import CollectiveCompleted, CollectiveFailed, ValueFound

SLICE_S = 0.2

Answer = CollectiveCompleted | CollectiveFailed | ValueFound
Delivery = tuple[Answer, list[Frame]]
Awaited = tuple[str, str]
"""The cell and topic of a meeting, or the generation and key of a value."""


class Wait(NamedTuple):
    """What a thread waits for, and the way of the answer to it."""

    awaited: Awaited
    thread: threading.Thread
    answers: "queue.SimpleQueue[Delivery | None]"
    """None: look around, something else has happened."""
    held: HeldTime
    """When ranks were in a debugger, so that deadlines stood still."""

    def take(self, timeout_s: float, look_around: Callable[[], None]) -> Delivery | None:
        """Wait for the answer, or None after `timeout_s`; in slices, so that Ctrl-C works.

        `look_around` raises what makes further waiting useless. An answer that is there counts
        before that: it says more than the failure of a rank that has got the same one.
        """
        began_s = monotonic()
        deadline_s = began_s + timeout_s
        while True:
            while not self.answers.empty():
                if (there := self.answers.get()) is not None:
                    return there
            look_around()
            now_s = monotonic()
            if now_s >= deadline_s:
                deadline_s = self.held.deadline_s(began_s, timeout_s, now_s)
            left_s = deadline_s - now_s
            if left_s <= 0:
                return None
            try:
                answer = self.answers.get(timeout=min(SLICE_S, left_s))
            except queue.Empty:
                continue
            if answer is not None:
                return answer


class WaitingRoom:
    """Has room for one thread; `deliver` and `wake` may be called by any."""

    def __init__(self, held: HeldTime) -> None:
        self._held = held
        self._wait: Wait | None = None
        self._door = threading.Lock()

    @contextmanager
    def enter(self, awaited: Awaited, what: str) -> Iterator[Wait]:
        """Be the thread that waits; raises CommunicatorError while another one does."""
        me = threading.current_thread()
        wait = Wait(awaited, me, queue.SimpleQueue(), self._held)
        with self._door:
            other = self._wait
            # One's own, or that of a thread that is no more, was left there by an interrupt.
            if other is not None and other.thread is not me and other.thread.is_alive():
                raise CommunicatorError(
                    f"{what} began while another thread is inside a collective. "
                    "Call collectives from one thread."
                )
            self._wait = wait
        try:
            yield wait
        finally:
            self._wait = None

    def deliver(self, answer: Answer, frames: list[Frame]) -> None:
        """Hand an answer to who waits for it; nobody does if it comes too late."""
        wait = self._wait
        if wait is not None and wait.awaited == _about(answer):
            wait.answers.put((answer, frames))

    def wake(self) -> None:
        """Let the thread look around."""
        wait = self._wait
        if wait is not None:
            wait.answers.put(None)


def _about(answer: Answer) -> Awaited:
    if isinstance(answer, ValueFound):
        return str(answer.generation), answer.key
    return answer.cell_id, answer.topic
