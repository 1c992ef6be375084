"""One rank's device in one communicator: what is queued there, and what becomes of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from typing import Any

import msgspec

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.calls.call import Call
from jupyter_dist.collective.nccl.api import SUCCESS, NcclApi
from jupyter_dist.collective.nccl.clique import END_TIMEOUT_S, Clique, late_peers
from jupyter_dist.collective.nccl.cuda import PER_THREAD_STREAM, Cuda, pause
from jupyter_dist.collective.nccl.launch import Plan
from jupyter_dist.collective.nccl.libraries import DeviceLibrary, Libraries
from jupyter_dist.collective.nccl.outstanding import Outstanding, Queued
from jupyter_dist.collective.nccl.watcher import Watcher
from jupyter_dist.errors import CommunicatorError, UsageError
from jupyter_dist.model.hosts.rank import format_ranks

_DEPTH = 4
"""User code is so many calls above the recorder, or more."""
_LEAVE_PATIENCE_S = 0.1
"""So long the main thread may take to leave NCCL before an abort comes over it."""
_LOOK_PATIENCE_S = 0.1
"""So long the driver may take to say what has ended; then all else is lost."""
_CLOSE_PATIENCE_S = 1.0
_LONGEST_PAUSE_S = 0.005


class Ways(msgspec.Struct, frozen=True):
    """How a communicator gets at what only some machines have; tests have their own."""

    load_cuda: Callable[[], Cuda]
    find_api: Callable[[], NcclApi]
    wake_main: Callable[[], None]
    """Makes the main thread raise `lost_error` as soon as it runs Python again."""


class NoArray:
    """Stands for a type that no array has."""


class Device:
    """Queues calls, and looks after them until they have ended. CuPy is loaded when needed."""

    cuda: Cuda
    libraries: Libraries
    library: DeviceLibrary
    """Of the arrays of the present call."""

    def __init__(self, host_log: CallLog, ways: Ways) -> None:
        group = host_log.group
        # With a name of its own: its calls are numbered apart from those on host memory.
        label = f"{group.label or format_ranks(group.members)}~device"
        own = msgspec.structs.replace(group, label=label)
        self.log = CallLog(
            own, host_log.scope, host_log.recorder, host_log.control, self._fall_apart
        )
        self.clique = Clique(self.log, ways.find_api)
        self.ndarray: type[Any] = NoArray
        """CuPy's arrays."""
        self.plain: type[Any] = NoArray
        """Arrays that are taken as they are: CuPy's, while no other library is in use."""
        self.stream: Any = None
        """Set by the user; None is the current one of the arrays' library."""
        self.rank = group.rank
        self.size = group.size
        self._world_rank = group.world_rank
        self._keeps = False
        """Arrays must be kept until their call has ended."""
        self._ways = ways
        self._recorder = host_log.recorder
        self._outstanding: Outstanding | None = None
        self._watcher: Watcher
        self._lost: CommunicatorError | None = None
        self._is_raising = False
        """The main thread is about to raise anyway."""
        self._launching: tuple[Call, float] | None = None
        """What the main thread has called NCCL for, and since when; it may be stuck in there."""

    def load(self) -> None:
        """Load CuPy; raises CommunicatorError."""
        if self._outstanding is None:
            self.cuda = self._ways.load_cuda()
            self.libraries = Libraries(self.cuda)
            self.library = self.libraries.cupy
            outstanding = Outstanding(self.cuda, self._recorder)
            self._watcher = Watcher(self.cuda, outstanding, self.clique, self.log)
            self.ndarray = self.plain = self.cuda.ndarray
            self._outstanding = outstanding  # last: with it other threads take all as loaded

    @contextmanager
    def using(self, library: DeviceLibrary) -> Iterator[None]:
        """Take arrays of this library within the block, on its stream or the user's."""
        usual, self.library = self.library, library
        self.plain = self.ndarray if library is self.libraries.cupy else NoArray
        self._keeps = self.stream is not None or library.keeps
        try:
            with self.cuda.on(self.stream if self.stream is not None else library.stream()):
                yield
        finally:
            self.library, self.plain, self._keeps = usual, self.ndarray, False

    def along_stream(self, operation: str) -> AbstractContextManager[None]:
        """Have CuPy work on the user's stream within a block, in order with its current one."""
        if self.stream is None:
            return nullcontext()
        self.find_stream(operation)
        self._check_not_captured(operation, self.stream.ptr)
        return self.cuda.across(self.stream)

    # --- one call ----------------------------------------------------------------------------

    def find_stream(self, operation: str) -> int:
        """Return the current stream; raises UsageError when it is being captured."""
        stream: int = self.cuda.current_stream().ptr
        self._check_not_captured(operation, stream)
        return stream

    def _check_not_captured(self, operation: str, stream: int) -> None:
        if self.cuda.is_capturing(stream):
            raise UsageError(
                f"{operation} was called while its stream is captured into a CUDA graph: when "
                "it runs, or that it fails, could not be seen. Call it outside of the capture."
            )

    def _check_formable(self, operation: str) -> None:
        """Raise CommunicatorError when NCCL has to be formed and not all members are here."""
        log = self.log
        participants = None if self.clique.handle is not None else log.participants
        if participants is not None and len(participants) < self.size:
            raise CommunicatorError(
                f"{log.where_it_runs}; {operation} is the first call on device "
                f"memory, for which NCCL is formed by all {self.size} ranks. Run a cell with a "
                "call on device memory on all of them first, such as comm.all_reduce(x)."
            )

    def queue(
        self,
        plan: Plan,
        source: Any,
        target: Any,
        prepare: Callable[[], tuple[Call, Any, Any]] | None = None,
    ) -> None:
        """Number and record a call, queue it on the stream; raise what broke it.

        `prepare` is for messages: it numbers them, and gives what to send and what to receive.
        """
        log, recorder = self.log, self._recorder
        stream = self.find_stream(plan.signature.operation)
        log.enter(plan.signature.operation)
        try:
            if prepare is not None and plan.count:
                self._check_formable(plan.signature.operation)
            if prepare is None:
                call = log.number(plan.signature)
            else:
                call, source, target = prepare()
            token = -1 if recorder is None else recorder.begin(call, _DEPTH)
            try:
                if prepare is None and log.scope.is_checked:
                    log.compare(call)
                if plan.count:
                    self._launch(call, token, plan, stream, source, target)
                elif recorder is not None:
                    recorder.end(token)
            except BaseException as error:
                if recorder is not None:
                    recorder.end(token, False)
                told = self._blame(error, call)
                if told is not error:
                    raise told from None
                raise
        finally:
            self._launching = None
            log.leave()
        if self._lost is not None:
            # An abort has waited for this call to leave, and came over it on this thread.
            self._ways.wake_main()

    def _launch(
        self, call: Call, token: int, plan: Plan, stream: int, source: Any, target: Any
    ) -> None:
        """Let NCCL queue a call, between two events."""
        cuda, clique, outstanding = self.cuda, self.clique, self._outstanding
        if stream == PER_THREAD_STREAM:
            # NCCL queues on a thread of its own, where this would be another stream.
            with cuda.across(cuda.bridge()):
                self._launch(call, token, plan, cuda.bridge().ptr, source, target)
            return
        assert outstanding is not None
        if clique.handle is None:
            clique.form(cuda)
            cuda.set_clock()
            self._watcher.start()
        begun, ended = cuda.take_events()
        try:
            cuda.record(begun, stream)
            self._launching = call, monotonic()
            then = plan.launch(clique, cuda, plan, stream, source, target)
            api = clique.api
            handle = clique.handle
            if api.is_polled and (handle is None or api.state(handle) != SUCCESS):
                clique.await_queued(call)
            # An abort that came over the launch has left nothing that could end well.
            clique.check_lost()
            if then is not None:
                then()
            cuda.record(ended, stream)
        except BaseException:
            cuda.give_back(begun, ended)
            raise
        kept = (source, target) if self._keeps else None
        outstanding.add(Queued(call, token, begun, ended, kept))

    def _blame(self, error: BaseException, call: Call) -> BaseException:
        """Break the communicator for what ended a call; give what to raise."""
        self._is_raising = True
        try:
            cause = error
            if isinstance(error, self.clique.failures):
                cause = self.clique.judge(error, call)
            return self.log.blame(cause, call) or cause
        finally:
            self._is_raising = False

    # --- looking after what is queued --------------------------------------------------------

    def look(self) -> None:
        """From the link thread, some times a second: see to deadlines, and to what went wrong."""
        if self._outstanding is None or self.clique.lost is not None:
            return
        breakage = self._watcher.find_breakage() or self._find_stuck_launch()
        if breakage is not None:
            self.abort(breakage)

    def _find_stuck_launch(self) -> Breakage | None:
        """With NCCL_COMM_BLOCKING=1 NCCL does not return before the peers of a message come."""
        launching = self._launching
        if launching is None:
            return None
        call, since_s = launching
        scope, now_s = self.log.scope, monotonic()
        if now_s < scope.held.deadline_s(since_s, scope.timeout_s, now_s):
            return None
        return late_peers(call, scope.timeout_s, self._world_rank)

    def settle(self) -> None:
        """From the main thread: wait until all that is queued has ended; raise if it does not."""
        outstanding = self._outstanding
        if outstanding is None:
            return
        pause_s = 0.0
        start_s = monotonic()
        while True:
            outstanding.look()
            self._raise_lost()
            if not len(outstanding):
                break
            self.look()
            # There is no event that both the device and Ctrl-C would set.
            pause(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, (monotonic() - start_s) / 10)
        if self.clique.handle is not None:
            self.cuda.set_clock()

    def _raise_lost(self) -> None:
        error = self.lost_error()
        if error is None:
            return
        if not self.clique.await_end():
            text = (
                f"{error}. NCCL has not let go of the device for {END_TIMEOUT_S:g} s; if the "
                "next cells hang, stop the cluster and start it again"
            )
            error.args = (text,)
        raise error

    # --- the end -----------------------------------------------------------------------------

    def abort(self, breakage: Breakage) -> None:
        """Break it, from any thread; what is on the device then has no result."""
        self.clique.lost = self.clique.lost or breakage
        self.log.break_within(breakage, _LEAVE_PATIENCE_S)

    def lost_error(self) -> CommunicatorError | None:
        """Give, once, the error of calls that were on the device when it broke."""
        error, self._lost = self._lost, None
        return error

    def _fall_apart(self, breakage: Breakage) -> None:
        outstanding = self._outstanding
        if outstanding is None:
            return
        # The main thread itself is told when it gets out of here: not on the way to the abort.
        is_main = threading.current_thread() is threading.main_thread()
        try:
            self._watcher.look_within(_LOOK_PATIENCE_S)
            lost = outstanding.give_up()
            if lost is not None:
                self._lost = _say_lost(breakage, lost).error(self._world_rank)
            if lost is not None and not self._is_raising and not is_main:
                # First, so that nothing is ever computed from what an abort leaves behind.
                self._ways.wake_main()
        finally:
            self.clique.abort()

    def close(self) -> None:
        """Release everything; calling it again changes nothing."""
        self.log.forget()
        outstanding = self._outstanding
        if outstanding is None:
            return
        has_looked = self._watcher.look_within(_CLOSE_PATIENCE_S)
        if outstanding.give_up() is None and has_looked:
            self.clique.finish()
        else:
            self.clique.abort()
        if self.clique.await_end():
            self._watcher.end(self.cuda.release)

    def end_if_idle(self) -> bool:
        """Begin its end once its calls have ended; return whether it is over. From any thread."""
        outstanding = self._outstanding
        if outstanding is None:
            return True
        if len(outstanding) or not self.log.try_enter():
            return False
        try:
            self.log.forget()
            self.clique.finish()
        finally:
            self.log.leave()
        if not self.clique.await_end(0.0):
            return False
        self._watcher.end(self.cuda.release)
        return True


def _say_lost(breakage: Breakage, lost: Call) -> Breakage:
    if str(lost) in breakage.text:
        return breakage
    text = f"{breakage.text}; {lost} was on the device and has no result"
    return msgspec.structs.replace(breakage, text=text)
