"""One process group of CuPy on this rank: what it has begun, and its end."""

import sys
import threading
import weakref
from collections.abc import Callable
from time import monotonic
from types import SimpleNamespace
from typing import Any

from jupyter_dist.cuda_driver import NOT_READY, SUCCESS, EventDriver, load_driver
from jupyter_dist.errors import CollectiveTimeout, FrameworkError
from jupyter_dist.frameworks.blocking_call import BlockingCall
from jupyter_dist.frameworks.framework import GRACE_S, Failure

INIT_TIMEOUT_S = 120.0
_ANSWER_PATIENCE_S = 0.2
"""So long the driver may take to say what is under way."""
_MOST_EVENTS = 64
_PAIRWISE = frozenset({"send", "recv", "send_recv"})
"""Not every rank calls these, so that they are not counted."""


class Group:
    """What one call of init_process_group made. Used by the main thread and the link thread."""

    def __init__(self, backend: Any, generation: int, number: int) -> None:
        self._backend = weakref.ref(backend)
        self.generation = generation
        self.number = number
        self.calls = 0
        self.is_stopped = False
        self.torn: Failure | None = None
        """Why its communicator was aborted: what it was about to give is not to be trusted."""
        self.stale = ""
        """Why it belongs to what was before; empty: it is of the present."""
        self._depth = 0
        self._events: dict[int, Any] = {}
        """By stream: done as soon as the device has done what was begun there last."""
        self._driver: EventDriver | None = None
        self._is_launching = False

    @property
    def backend(self) -> Any:
        """Return the object that the user has; None when nobody has it any more."""
        return self._backend()

    @property
    def is_busy(self) -> bool:
        """Return whether something is under way, on this thread or on the device."""
        return self._is_launching or any(map(self._is_pending, list(self._events.values())))

    def _is_pending(self, event: Any) -> bool:
        driver = self._driver
        assert driver is not None
        with driver.relaxed():
            status = driver.query(event.ptr)
        # CuPy has the words for everything else.
        return status == NOT_READY or (status != SUCCESS and not event.done)

    def check(self) -> None:
        """Raise when a call would reach nobody; FrameworkError, PeerFailed."""
        if self.stale:
            raise FrameworkError(
                f"this process group of CuPy belongs to what was before ({self.stale}). Make it "
                "again in a cell on all ranks: cupyx.distributed.init_process_group()."
            )
        if self.torn is not None:
            raise self.torn.to_error()

    def is_outermost(self) -> bool:
        """Return whether the next call is the user's own, and not a part of one."""
        return self._depth == 0

    def launch(self, operation: str, call: Callable[[], None], cuda: Any, stream: Any) -> None:
        """Make a call, and note when the device has done it; `stream` None: the current one."""
        if operation not in _PAIRWISE:
            self.calls += 1
        self._depth, self._is_launching = 1, True
        try:
            call()
            self._find_event(cuda, stream).record(stream)
        finally:
            self._depth, self._is_launching = 0, False

    def _find_event(self, cuda: Any, stream: Any) -> Any:
        if self._driver is None:
            self._driver = load_driver(cuda.runtime, cuda.Device().id)
        pointer = (cuda.get_current_stream() if stream is None else stream).ptr
        if pointer not in self._events:
            if len(self._events) >= _MOST_EVENTS:
                events = self._events.items()
                self._events = {ptr: event for ptr, event in events if self._is_pending(event)}
            self._events[pointer] = cuda.Event(disable_timing=True)
        return self._events[pointer]

    def look(self, failure: Failure) -> None:
        """Abort what is still under way some time after a failure."""
        if self.torn is not None or self.stale or monotonic() - failure.since_s < GRACE_S:
            return
        if self._may_be_busy():
            self.torn = failure
            self.abort()

    def _may_be_busy(self) -> bool:
        """Say, from another thread, whether something is under way, or the driver does not tell."""
        driver = self._driver
        if driver is None:
            return self._is_launching
        found: list[bool] = []

        def ask() -> None:
            driver.use_device()
            try:
                found.append(self.is_busy)
            except RuntimeError:  # the device has an error: the main thread is told too
                found.append(False)

        # The driver may not answer before what is under way has been aborted.
        asking = threading.Thread(target=ask, daemon=True, name="cupy look")
        asking.start()
        asking.join(_ANSWER_PATIENCE_S)
        return found[0] if found else True

    def abort(self) -> None:
        """End what the device waits in; on a thread of its own, because NCCL may take its time."""
        communicator = getattr(self.backend, "_comm", None)
        end = getattr(communicator, "abort", None)
        if end is not None:
            threading.Thread(target=end, daemon=True, name="cupy abort").start()

    def settle(self) -> None:
        """Wait until the device has done all; raises PeerFailed for what was torn."""
        pause = threading.Event()
        pause_s = 0.0005
        while self.torn is None and self.is_busy:
            pause.wait(pause_s)  # it is never set: CUDA has no wait that Ctrl-C ends
            pause_s = min(2 * pause_s, 0.02)
        if self.torn is not None:
            raise self.torn.to_error()


def make_interruptible(module: Any, find_failure: Callable[[], Failure | None]) -> None:
    """Have communicators formed on another thread; `module` is cupyx.distributed._nccl_comm."""
    nccl: Any = getattr(module, "nccl", None)
    if nccl is None or not hasattr(nccl, "NcclCommunicator"):
        return  # there is no NCCL

    def make(*args: Any, **options: Any) -> Any:
        return form_communicator(
            lambda: nccl.NcclCommunicator(*args, **options), sys.modules["cupy"].cuda, find_failure
        )

    module.nccl = SimpleNamespace(**{**vars(nccl), "NcclCommunicator": make})


def form_communicator(
    make: Callable[[], Any], cuda: Any, find_failure: Callable[[], Failure | None]
) -> Any:
    """Have NCCL form a communicator, which blocks, and wait so that an interrupt comes through.

    Raises what NCCL raises, PeerFailed, CollectiveTimeout.
    """
    device_id = cuda.Device().id
    deadline_s = monotonic() + INIT_TIMEOUT_S

    def work() -> Any:
        cuda.Device(device_id).use()
        return make()

    def look_around() -> None:
        if (failure := find_failure()) is not None:
            raise failure.to_error()
        if monotonic() > deadline_s:
            raise CollectiveTimeout(
                f"NCCL did not form CuPy's process group within {INIT_TIMEOUT_S:g} s. All ranks "
                "have come: look at the network that it uses (NCCL_DEBUG=INFO tells)."
            )

    return BlockingCall(work, "cupy init").wait(look_around)
