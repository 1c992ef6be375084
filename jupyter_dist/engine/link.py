"""The link thread: the one owner of the engine's socket.

It stays responsive while the main thread runs a cell: it sends what the cell says, hands over
what the cell waits for, and breaks the communicator when a peer has failed.
"""

import queue
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from jupyter_dist.control.context import new_context
from jupyter_dist.control.dealer import AnswersLost, Dealer
from jupyter_dist.control.heartbeat import HeartbeatEcho
from jupyter_dist.control.poller import Poller, Waker
from jupyter_dist.engine.birth import Birth
from jupyter_dist.engine.builtins_guard import BuiltinsGuard
from jupyter_dist.engine.ending import end_out_of_reach, end_with_own_error
from jupyter_dist.engine.refusals import refuse
from jupyter_dist.engine.stack_sign import StackSign
from jupyter_dist.engine.waiting import Answer
from jupyter_dist.errors import VersionMismatch, WireError
from jupyter_dist.protocol.codec import Frame, to_engine
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    Answered,
    Attend,
    AwaitValue,
    CellOutput,
    ControllerJoined,
    ControllerLeft,
    FetchObject,
    HeedNotices,
    JoinController,
    Leave,
    LeaveController,
    LeaveMeeting,
    Message,
    NoticeHandled,
    NoticeOver,
    NoticePosition,
    NoticesWanted,
    PreemptNotice,
    PutValue,
    Question,
    Regroup,
    RunCell,
    SavePointChosen,
    StoreObjects,
    TaskBegan,
    TaskEnded,
    ToEngine,
    WantService,
    Welcome,
)
from jupyter_dist.protocol.unreadable import Unreadable

STREAM_INTERVAL_S = 0.05
"""How often a running cell's output is looked at."""
IDLE_INTERVAL_S = 0.5
ORPHAN_AFTER_S = 10.0
"""An engine whose coordinator is out of reach for so long ends itself, unless the coordinator waits
even longer for it."""
_OF_CELLS = (Attend, LeaveMeeting, PutValue, AwaitValue, WantService, Answered, CellOutput)
_OF_IPYPARALLEL = (ControllerJoined, ControllerLeft, TaskBegan, TaskEnded)
_OF_NOTICES = (NoticesWanted, NoticePosition, NoticeHandled)
WITHIN_WORK = _OF_CELLS + _OF_IPYPARALLEL + _OF_NOTICES
"""What is posted while the main thread works; anything else is the end of its work."""


ForMain = Regroup | Welcome | RunCell | StoreObjects | FetchObject | Leave
"""What waits for the main thread; all else is looked at on the link thread."""


AboutNotices = HeedNotices | PreemptNotice | SavePointChosen | NoticeOver


class Delivery(NamedTuple):
    """A message for the main thread."""

    message: ForMain
    buffers: list[Frame]


class Link(threading.Thread):
    """Moves messages between the coordinator and the main thread."""

    def __init__(self, birth: Birth) -> None:
        super().__init__(name="link", daemon=True)
        self.inbox: queue.SimpleQueue[Delivery | Callable[[], None]] = queue.SimpleQueue()
        """Also has what others want the main thread to do, as a task of ipyparallel."""
        self.is_cell_waiting = False
        """A cell is in the inbox; whoever takes it out denies that."""
        self.on_abort: Callable[[AbortCommunicator], None] = lambda _: None
        self.on_answer: Callable[[Answer, list[Frame]], None] = lambda _answer, _frames: None
        self.on_beginning: Callable[[], None] = lambda: None
        """A cell, or a generation, has come; the main thread will find it in the inbox."""
        self.on_question: Callable[[Question], None] = lambda _: None
        self.on_controller: Callable[[JoinController | LeaveController], None] = lambda _: None
        self.on_notice: Callable[[AboutNotices], None] = lambda _: None
        self.take_output: Callable[[], Message | None] = lambda: None
        """Gives a message with what the running cell said, or None."""
        self.look: Callable[[], None] = lambda: None
        """Looks after what the running cell has queued on devices."""
        self.rank = birth.info.rank
        """It may become another one with a new generation."""
        self._birth = birth
        self._outbox: queue.SimpleQueue[tuple[Message, Sequence[Frame]]] = queue.SimpleQueue()
        self._waker = Waker()
        self._flushed = threading.Event()
        self._has_work = False
        self._sign = StackSign()
        self._builtins = BuiltinsGuard()

    def post(self, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send a message; from any thread."""
        self._outbox.put((message, buffers))
        self._waker.wake()

    def flush(self, timeout_s: float) -> None:
        """Wait until everything posted so far was handed to the network."""
        self._flushed.clear()
        self._waker.wake()
        self._flushed.wait(timeout_s)

    def run(self) -> None:
        """Serve until the process ends; a rank that nobody can reach must not live on."""
        try:
            self._serve()
        except BaseException as error:  # noqa: BLE001  (whatever it is, the rank ends with it)
            end_with_own_error(error)

    def _serve(self) -> None:
        birth = self._birth
        identity = birth.engine.encode()
        context = new_context()
        dealer = Dealer(birth.engines_address, birth.credentials, to_engine(), identity, context)
        HeartbeatEcho(context, birth.beats_address, birth.credentials, identity).start()
        self._sign.renew()  # from now on: threads made before do not bear this name
        poller = Poller()
        poller.add(dealer)
        poller.add(self._waker)
        next_stream_s = 0.0
        while True:
            had_work = self._has_work
            try:
                ready = poller.wait(STREAM_INTERVAL_S if had_work else IDLE_INTERVAL_S)
                self._builtins.repair()  # a cell may have damaged what is needed from here on
                if dealer in ready:
                    self._deliver(dealer)
                if self._waker in ready:
                    self._waker.clear()
                    self._send_posted(dealer)
                now_s = monotonic()
                if self._has_work and not had_work:
                    next_stream_s = now_s + STREAM_INTERVAL_S
                # A cell that meets others all the time keeps the link busy, and prints all the
                # same.
                if not ready or now_s >= next_stream_s:
                    next_stream_s = now_s + STREAM_INTERVAL_S
                    self._stream(dealer)
            except Exception:
                if not self._builtins.repair():
                    raise

    def _stream(self, dealer: Dealer[ToEngine]) -> None:
        """Send what the running cell has said; end the process when there is nobody to tell."""
        self.look()
        self._sign.renew()
        said = self.take_output()
        if said is not None:
            dealer.send(said)
        silence_s = dealer.silence_s()
        if silence_s > max(ORPHAN_AFTER_S, self._birth.lost_after_s):
            end_out_of_reach(silence_s)

    def _deliver(self, dealer: Dealer[ToEngine]) -> None:
        """Hand over what has arrived; what follows something unreadable is taken next time."""
        try:
            for message, buffers in dealer.receive():
                self._hand_over(message, buffers)
        except VersionMismatch:
            # The coordinator speaks another version: nothing sensible can follow.
            self.inbox.put(Delivery(Leave(), []))
        except Unreadable as problem:
            answer = refuse(problem, self.rank)
            if answer is not None:
                dealer.send(answer)
        except AnswersLost:  # it was forgotten: it hears next that its rank has another engine
            return
        except WireError:  # fewer frames than any message has: it asks for nothing
            with suppress(Exception):  # sys.stderr is what a cell has made of it
                traceback.print_exc()

    def _hand_over(self, message: ToEngine, buffers: list[Frame]) -> None:
        if isinstance(message, AbortCommunicator):
            self.on_abort(message)
        elif isinstance(message, Answer):
            self.on_answer(message, buffers)
        elif isinstance(message, Question):
            self.on_question(message)
        elif isinstance(message, JoinController | LeaveController):
            self.on_controller(message)
        elif isinstance(message, AboutNotices):
            self.on_notice(message)
        else:
            if isinstance(message, RunCell | Welcome):
                self.on_beginning()
            self.is_cell_waiting |= isinstance(message, RunCell)
            self._has_work = True
            self.inbox.put(Delivery(message, buffers))

    def _send_posted(self, dealer: Dealer[ToEngine]) -> None:
        while not self._outbox.empty():
            message, buffers = self._outbox.get()
            dealer.send(message, buffers)
            if not isinstance(message, WITHIN_WORK):
                self._has_work = False
        self._flushed.set()
