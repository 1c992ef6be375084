"""The NCCL communicator of one group of ranks, from the first call that needs it to its end."""

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.calls.call import Call
from jupyter_dist.collective.nccl.api import IN_PROGRESS, REMOTE_ERROR, SUCCESS, NcclApi
from jupyter_dist.collective.nccl.cuda import Cuda, pause
from jupyter_dist.errors import CollectiveTimeout, CommunicatorError
from jupyter_dist.model.hosts.rank import name_ranks

INIT_TIMEOUT_S = 60.0
END_TIMEOUT_S = 5.0
_FINALIZE_TIMEOUT_S = 2.0
"""Other ranks may be gone already; then it is aborted."""
_READY_PATIENCE_S = 10.0
"""So much later than others a rank may say that it is ready."""
NAMING_PATIENCE_S = 0.5
"""NCCL does not say which peer it lost; the coordinator does, if it is a lost rank."""
_SLICE_S = 0.2
_LONGEST_PAUSE_S = 1e-3
_FORMING = "the first call on device memory, for which NCCL is formed"
_HELP = (
    "Start the cluster with --env NCCL_DEBUG=INFO to see what NCCL does; which network it takes "
    "is decided by --env NCCL_SOCKET_IFNAME=…."
)


class Clique:
    """The ranks that exchange by NCCL; in the words of NCCL, a communicator.

    NCCL is called within a turn of the journal only, so that no two threads do at once.
    """

    def __init__(self, log: CallLog, find_api: Callable[[], NcclApi]) -> None:
        self.api: NcclApi
        self.handle: Any = None
        """Of NCCL; None before it is formed and after its end."""
        self.failures: tuple[type[Exception], ...] = ()
        """What NCCL's calls raise."""
        self.lost: Breakage | None = None
        """Why the main thread shall stop waiting, as the link thread says."""
        self.init_timeout_s = INIT_TIMEOUT_S
        self.rank = log.group.rank
        self._log = log
        self._find_api = find_api
        self._init: _Init | None = None
        self._end: threading.Thread | None = None
        self._swapping = threading.Lock()

    # --- forming -----------------------------------------------------------------------------

    def form(self, cuda: Cuda) -> None:
        """Meet all members, and form NCCL's communicator with them; raises CommunicatorError."""
        self.api = self._find_api()
        self.failures = (self.api.failure,)
        unique_id = self._share_id()
        deadline_s = monotonic() + self.init_timeout_s
        group = self._log.group
        name = f"jupyter-dist {group.label} generation {group.generation}"
        # An abort may take it away from another thread.
        init = self._init = _Init(self.api, cuda, (group.size, unique_id, group.rank, name))
        try:
            is_ready = self._await_init(init, deadline_s)
        except self.api.failure as error:
            raise self._unformed(self._explain(init.handle, error)) from None
        self._tell_ready(is_ready, max(0.0, deadline_s - monotonic()))
        with self._swapping:
            if self._init is init:
                self.handle, self._init = init.handle, None
        self._living_handle()

    def _share_id(self) -> bytes:
        """Make the id in the first member, which listens for the others; give it to all."""
        group = self._log.group
        mine = b""
        problem = ""
        if group.rank == 0:
            try:
                mine = self.api.new_id()
            except self.api.failure as error:
                problem = self._explain(None, error)
        brought = self._meet("nccl id", "broadcast", [mine, problem.encode()], 0.0)
        unique_id, told = bytes(brought[0]), bytes(brought[1]).decode()
        if told:
            raise CommunicatorError(f"NCCL does not start on rank {group.members[0]}: {told}")
        return unique_id

    def _await_init(self, init: "_Init", deadline_s: float) -> bool:
        """Wait until it is formed, and tell whether it is before the deadline."""
        init.start()
        while init.is_alive():
            init.join(min(_SLICE_S, max(0.0, deadline_s - monotonic())))
            self.check_lost()
            if init.is_alive() and monotonic() >= deadline_s:
                return False
        if init.error is not None:
            raise self._unformed(self._explain(init.handle, init.error))
        state = IN_PROGRESS if self.api.is_polled else SUCCESS
        while state == IN_PROGRESS:
            state = self.api.state(init.handle)
            self.check_lost()
            if monotonic() >= deadline_s:
                return state == SUCCESS
            sleep(_LONGEST_PAUSE_S)
        if state != SUCCESS:
            raise self._unformed(self.api.explain(init.handle, state))
        return True

    def _tell_ready(self, is_ready: bool, left_s: float) -> None:
        """Let everybody know who has got there; raises CollectiveTimeout unless all have."""
        group = self._log.group
        told = self._meet("nccl ready", "all_gather", [b"1" if is_ready else b""], left_s)
        late = [member for member, said in zip(group.members, told, strict=True) if not bytes(said)]
        if not late:
            return
        others = [member for member in group.members if member not in late]
        rest = f"; {name_ranks(others)} did" if others else ""
        raise CollectiveTimeout(
            f"NCCL was not formed within {self.init_timeout_s:g} s: {name_ranks(late)} did not "
            f"get there{rest}. {_HELP}"
        )

    def _meet(self, purpose: str, kind: str, frames: list[bytes], left_s: float) -> list[Any]:
        """Bring these frames to a meeting of all members; give what came back, member by member."""
        log = self._log
        members = log.group.members
        if log.group.size == 1:
            return list(frames)
        if log.control is None:
            raise CommunicatorError("NCCL cannot be formed without a control channel")
        is_told_all = kind == "all_gather"
        timeout_s = left_s + _READY_PATIENCE_S if is_told_all else log.scope.timeout_s
        brought = log.control.meet(
            f"{purpose} {log.group.label}",
            kind,
            members,
            frames if is_told_all or log.group.rank == 0 else (),
            claim=_FORMING,
            site="" if log.recorder is None else log.recorder.site,
            root=-1 if is_told_all else members[0],
            timeout_s=timeout_s,
        )
        if is_told_all:
            return [brought[member][0] for member in members]
        # The root gets nothing back: it has what it has brought.
        return list(frames) if log.group.rank == 0 else list(brought[members[0]])

    # --- calls -------------------------------------------------------------------------------

    def await_queued(self, call: Call) -> None:
        """Wait until NCCL has queued what was called; raises Broken or CommunicatorError."""
        state = self.api.state(self._living_handle())
        if state == SUCCESS:
            return
        scope = self._log.scope
        timeout_s = scope.timeout_s
        start_s = monotonic()
        pause_s = 0.0
        while state == IN_PROGRESS:
            self.check_lost()
            now_s = monotonic()
            waited_s = now_s - start_s
            if waited_s > timeout_s and waited_s - scope.held.held_s(start_s, now_s) > timeout_s:
                raise Broken(late_peers(call, timeout_s, self._log.group.world_rank))
            if waited_s > _LONGEST_PAUSE_S:
                pause_s = min(_LONGEST_PAUSE_S, pause_s + 1e-5)
            pause(pause_s)
            state = self.api.state(self._living_handle())
        if state != SUCCESS:
            raise self._judge(state, call)

    def judge(self, error: BaseException, call: Call) -> Broken | CommunicatorError:
        """Return what an error that NCCL raised means for this call."""
        return self._judge(int(getattr(error, "status", 1)), call)

    def _judge(self, status: int, call: Call) -> Broken | CommunicatorError:
        patience_s = NAMING_PATIENCE_S if status == REMOTE_ERROR else 0.0
        deadline_s = monotonic() + patience_s
        while self.lost is None and monotonic() < deadline_s:
            sleep(_LONGEST_PAUSE_S)
        if self.lost is not None:
            return Broken(self.lost)
        return CommunicatorError(f"NCCL failed in {call}: {self.explain(status)}")

    def find_state(self) -> int:
        """Return the result code of what goes on in the background."""
        handle = self.handle
        if handle is None:  # aborted meanwhile, for which someone has given the reason
            return SUCCESS
        try:
            return self.api.state(handle)
        except self.api.failure as error:
            return int(getattr(error, "status", 1))

    def explain(self, status: int) -> str:
        """Return what a result code means, with NCCL's last words."""
        return self.api.explain(self.handle, status)

    def check_lost(self) -> None:
        """Raise Broken when the link thread has said that waiting is of no use."""
        if self.lost is not None:
            raise Broken(self.lost)

    def _living_handle(self) -> Any:
        """Return the handle; raises Broken or CommunicatorError when an abort has taken it."""
        handle = self.handle
        if handle is None:
            self.check_lost()
            raise CommunicatorError("NCCL was aborted while it was in use")
        return handle

    def _unformed(self, text: str) -> CommunicatorError:
        return CommunicatorError(f"NCCL could not be formed: {text}. {_HELP}")

    def _explain(self, handle: Any, error: Exception) -> str:
        if isinstance(error, self.api.failure):
            return self.api.explain(handle, int(getattr(error, "status", 1)))
        return f"{type(error).__name__}: {error}"

    # --- the end -----------------------------------------------------------------------------

    def abort(self) -> None:
        """Let NCCL end all that it has on the device, on a thread of its own; from any thread."""
        self._begin_end(_abort)

    def finish(self) -> None:
        """Let NCCL end what has nothing on the device any more, likewise."""
        self._begin_end(_finish)

    def _begin_end(self, end: Callable[[NcclApi, Any], None]) -> None:
        # Two threads may come here at once; NCCL must be told once.
        with self._swapping:
            handle, self.handle = self.handle, None
            init, self._init = self._init, None
        if init is not None:
            handle, end = init.abandon(), _abort
        if handle is None:
            return
        self._end = threading.Thread(
            target=end, args=(self.api, handle), name="nccl end", daemon=True
        )
        self._end.start()

    def await_end(self, timeout_s: float = END_TIMEOUT_S) -> bool:
        """Wait for an end that has begun; return whether none goes on any more."""
        end = self._end
        deadline_s = monotonic() + timeout_s
        while end is not None and end.is_alive() and monotonic() < deadline_s:
            end.join(_SLICE_S)
        return end is None or not end.is_alive()


def late_peers(call: Call, timeout_s: float, world_rank: int) -> Breakage:
    """Say that NCCL has not queued a call in time, for want of its peers."""
    return Breakage("timeout", world_rank, f"waited {timeout_s:g} s for its peers to begin {call}")


class _Init(threading.Thread):
    """Forms a communicator; on its own thread, because NCCL may block for as long as it likes."""

    def __init__(self, api: NcclApi, cuda: Cuda, arguments: tuple[int, bytes, int, str]) -> None:
        super().__init__(name="nccl init", daemon=True)
        self.handle: Any = None
        self.error: Exception | None = None
        self._api = api
        self._cuda = cuda
        self._arguments = arguments
        self._handing_over = threading.Lock()
        self._is_abandoned = False

    def run(self) -> None:
        """Form it; nobody may want it any more when that is done."""
        try:
            self._cuda.use_device()
            handle = self._api.init(*self._arguments)
        except Exception as error:  # noqa: BLE001  (the main thread raises it)
            self.error = error
            return
        with self._handing_over:
            self.handle = handle
            is_wanted = not self._is_abandoned
        if not is_wanted:
            _abort(self._api, handle)

    def abandon(self) -> Any:
        """Want it no more; give the handle if there is one, for whoever aborts it."""
        with self._handing_over:
            self._is_abandoned = True
            return self.handle


def _abort(api: NcclApi, handle: Any) -> None:
    # NCCL takes the device of the communicator; CUDA might be stuck until it has been aborted.
    with suppress(api.failure):  # the communicator is gone either way, and its callers know why
        api.abort(handle)


def _finish(api: NcclApi, handle: Any) -> None:
    """End it without an abort, which may leak what NCCL has on the network."""
    state = IN_PROGRESS
    deadline_s = monotonic() + _FINALIZE_TIMEOUT_S
    try:
        api.finalize(handle)
        while (state := api.state(handle)) == IN_PROGRESS and monotonic() < deadline_s:
            sleep(_LONGEST_PAUSE_S)
    except api.failure:
        state = REMOTE_ERROR
    if state != SUCCESS:
        _abort(api, handle)
        return
    with suppress(api.failure):  # the communicator is gone either way
        api.destroy(handle)
