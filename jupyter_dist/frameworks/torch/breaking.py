"""What ends collectives of torch that nobody will answer, and what their errors really mean."""

import os
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import assert_never

from jupyter_dist.errors import DistError, FrameworkError
from jupyter_dist.frameworks.framework import GRACE_S, Failure
from jupyter_dist.frameworks.torch.stack import Stillness, ThreadActivity, see_main_thread
from jupyter_dist.model.ranks.user_errors import error_text, is_of

UNSURE_S = 2.0
"""Where it cannot be seen whether the main thread waits for others, it has so long to come back."""
STILL_S = 0.1
"""Who waits inside of a collective uses no CPU time for so long."""
UNSURE_STILL_S = 0.5
"""And elsewhere: a thread that works may get no core for a moment."""
TEAR_AGAIN_S = 1.0
"""What still waits so long after its connections were shut down is not waiting for them."""
TOLD_WITHIN_S = 2.0
"""A connection may close before we are told why."""


class Breaking:
    """Knows whether the cell has failed, and ends what still waits; told by the link thread."""

    def __init__(self, tear: Callable[[bool], None], uses_devices: Callable[[], bool]) -> None:
        self._tear = tear
        """Shuts down whatever collectives wait in; True: that has been done, and some still do."""
        self._uses_devices = uses_devices
        """A wait for a device may use all of a core, and be in any line of the user."""
        self._stillness = Stillness()
        self._failure: Failure | None = None
        self._torn_s: float | None = None
        """When something was torn last in this cell."""
        self._lock = threading.RLock()
        self._told = threading.Condition(self._lock)

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Note the first failure; a rank that failed says more than an interrupt."""
        with self._lock:
            if self._failure is None or self._failure.rank < 0 <= failed_rank:
                since_s = monotonic() if self._failure is None else self._failure.since_s
                self._failure = Failure(failed_rank, reason, since_s)
            self._told.notify_all()

    def expect_cell(self) -> None:
        """Forget it: the next cell has come."""
        with self._lock:
            self._failure = self._torn_s = None
            self._stillness.forget()

    def look_around(self) -> None:
        """Raise PeerFailed where waiting for others is of no use any more."""
        failure = self._failure
        if failure is not None and failure.rank >= 0:
            raise failure.to_error()

    def look(self) -> None:
        """Tear what is still under way though it has had its time."""
        failure = self._failure
        now_s = monotonic()
        if failure is None or (self._torn_s is not None and now_s - self._torn_s < TEAR_AGAIN_S):
            return
        if self._is_waiting(failure, now_s - failure.since_s, self._stillness.look(now_s)):
            is_again, self._torn_s = self._torn_s is not None, now_s
            self._tear(is_again)

    def _is_waiting(self, failure: Failure, waited_s: float, still_s: float) -> bool:
        """Return whether the main thread waits for ranks that will not come; work goes on."""
        if waited_s < GRACE_S:
            return False
        if waited_s >= UNSURE_S and (failure.rank < 0 or self._uses_devices()):
            return True
        match see_main_thread():
            case ThreadActivity.WAITING:
                return still_s >= STILL_S
            case ThreadActivity.UNSURE:
                return waited_s >= UNSURE_S and still_s >= UNSURE_STILL_S
            case ThreadActivity.WORKING:
                return False
            case never:
                assert_never(never)

    def explain(self, error: BaseException) -> BaseException | None:
        """Return what an error of torch's really means; None: it means what it says."""
        if not is_of(error, RuntimeError) or is_of(error, DistError):
            return None
        if "invalid device ordinal" in error_text(error):
            return _explain_device(error)
        if not is_of_transport(error):
            return None
        failure = self._await_failure()
        if failure is None:
            return None
        return KeyboardInterrupt() if failure.rank < 0 else failure.to_error()

    def _await_failure(self) -> Failure | None:
        with self._lock:
            self._told.wait_for(lambda: self._failure is not None, TOLD_WITHIN_S)
            return self._failure


def is_of_transport(error: BaseException) -> bool:
    """Return whether an error comes from what moves data: gloo, NCCL or the store."""
    if not is_of(error, RuntimeError) or is_of(error, DistError):
        return False
    base = getattr(sys.modules.get("torch.distributed"), "DistError", None)
    if base is not None and isinstance(error, base):
        return True
    text = error_text(error).lower()
    return "gloo" in text or "nccl" in text


def _explain_device(error: RuntimeError) -> BaseException | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if not visible or "," in visible:
        return None
    return FrameworkError(
        f"{error_text(error).splitlines()[0]}: this rank sees one GPU only (CUDA_VISIBLE_DEVICES="
        f"{visible}), which is cuda:0. Leave torch.cuda.set_device(LOCAL_RANK) out, or start with "
        "--env CUDA_VISIBLE_DEVICES=0,1,… so that each rank sees all of them."
    )
