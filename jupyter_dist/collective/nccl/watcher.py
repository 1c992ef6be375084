"""The watch over a device, on a thread that alone waits when the driver does not answer."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic_ns

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.nccl.api import IN_PROGRESS, REMOTE_ERROR, SUCCESS
from jupyter_dist.collective.nccl.clique import NAMING_PATIENCE_S, Clique
from jupyter_dist.collective.nccl.cuda import Cuda
from jupyter_dist.collective.nccl.outstanding import Outstanding


class Watcher:
    """Asks the driver and NCCL how calls go. Its methods never wait for either on other threads."""

    def __init__(self, cuda: Cuda, outstanding: Outstanding, clique: Clique, log: CallLog) -> None:
        self._cuda = cuda
        self._outstanding = outstanding
        self._clique = clique
        self._log = log
        self._requests: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_asked = False
        self._thread: threading.Thread | None = None
        self._found: Breakage | None = None
        """What NCCL said when it was asked."""
        self._failed_since_ns = 0

    def start(self) -> None:
        """Start the thread; again changes nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="nccl watcher", daemon=True)
            self._thread.start()

    def find_breakage(self) -> Breakage | None:
        """Return what is known to have gone wrong, and have the thread look again."""
        # One request at a time: they must not pile up while the driver does not answer.
        if self._thread is not None and not self._is_asked:
            self._is_asked = True
            self._requests.put(self._look)
        outstanding = self._outstanding
        if not len(outstanding):
            return None
        world_rank = self._log.group.world_rank
        if outstanding.problem:
            text = f"cannot go on: its device reports {outstanding.problem}"
            return Breakage("left", world_rank, text)
        timeout_s = self._log.scope.timeout_s
        overdue = outstanding.find_overdue(monotonic_ns(), timeout_s, self._log.scope.held)
        if overdue is None:
            return self._found
        call, is_known = overdue
        text = f"waited {timeout_s:g} s for its peers in {call}, which is on the device"
        if not is_known:
            text += "; the CUDA driver did not answer meanwhile, so that it may not have begun"
        return Breakage("timeout", world_rank, text)

    def look_within(self, patience_s: float) -> bool:
        """Have the thread look now; return whether it has, in that time."""
        if self._thread is None:
            return True
        if self._thread is threading.current_thread():
            # An abort was ordered while it had the turn of the journal, and follows at its end.
            self._outstanding.look(is_patient=True)
            return True
        has_looked = threading.Event()
        self._requests.put(self._look)
        self._requests.put(has_looked.set)
        return has_looked.wait(patience_s)

    def end(self, last: Callable[[], None]) -> None:
        """Have the thread do one last thing, and no more; without a thread it is done here."""
        thread, self._thread = self._thread, None
        if thread is None:
            last()
            return
        self._requests.put(last)
        self._requests.put(None)

    # --- on the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        self._cuda.use_device()
        while (action := self._requests.get()) is not None:
            self._is_asked = False
            action()

    def _look(self) -> None:
        self._outstanding.look(is_patient=True)
        if len(self._outstanding) and self._clique.lost is None:
            self._found = self._find_nccl_breakage()

    def _find_nccl_breakage(self) -> Breakage | None:
        if not self._log.try_enter():
            return None  # the main thread is in NCCL, and looks for itself
        try:
            clique = self._clique
            if clique.handle is None:
                return None
            state = clique.find_state()
            text = "" if state in (SUCCESS, IN_PROGRESS) else clique.explain(state)
        finally:
            self._log.leave()
        if not text:
            return None
        now_ns = monotonic_ns()
        self._failed_since_ns = self._failed_since_ns or now_ns
        if state == REMOTE_ERROR and now_ns - self._failed_since_ns < NAMING_PATIENCE_S * 1e9:
            return None
        world_rank = self._log.group.world_rank
        return Breakage("left", world_rank, f"cannot go on: NCCL failed: {text}")
