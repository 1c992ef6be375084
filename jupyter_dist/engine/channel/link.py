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
from typing import Any, NamedTuple, Protocol, get_args

from jupyter_dist.control.context import new_context
from jupyter_dist.control.dealer import AnswersLost, Dealer
from jupyter_dist.control.heartbeat import echo_heartbeats
from jupyter_dist.control.poller import Poller, Waker
from jupyter_dist.engine.builtins_guard import BuiltinsGuard
from jupyter_dist.engine.channel.failed_orders import refuse
from jupyter_dist.engine.channel.stack_thread_name import StackSign
from jupyter_dist.engine.channel.waiting import Answer
from jupyter_dist.engine.leaving.exit_reason import end_out_of_reach, end_with_own_error
from jupyter_dist.errors import VersionMismatch, WireError
from jupyter_dist.protocol.births import EngineConfig
from jupyter_dist.protocol.codec import Frame, to_engine
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    CellResult,
    FetchObject,
    HeedNotices,
    Hello,
    JoinController,
    Leave,
    LeaveController,
    Message,
    NoticeOver,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    PreemptNotice,
    Question,
    Ready,
    Regroup,
    RunCell,
    SavePointChosen,
    StoreObjects,
    ToEngine,
    Welcome,
)
from jupyter_dist.protocol.unreadable import Unreadable

STREAM_INTERVAL_S = 0.05
"""How often a running cell's output is looked at."""
IDLE_INTERVAL_S = 0.5
ORPHAN_AFTER_S = 10.0
"""An engine whose coordinator is out of reach for so long ends itself, unless the coordinator waits
even longer for it."""
END_OF_WORK = (Hello, Ready, NotReady, CellResult, ObjectsStored, ObjectFetched)
"""What the main thread posts when it has done what it was asked for."""


ForMain = Regroup | Welcome | RunCell | StoreObjects | FetchObject | Leave
"""What waits for the main thread; all else is looked at on the link thread."""


AboutNotices = HeedNotices | PreemptNotice | SavePointChosen | NoticeOver


class Delivery(NamedTuple):
    """A message for the main thread."""

    message: ForMain
    buffers: list[Frame]


class LinkHandler(Protocol):
    """What the rank does with messages on the link thread, while a cell may run."""

    def on_abort(self, message: AbortCommunicator, frames: list[Frame]) -> None:
        """Break the communicator: a peer has failed."""

    def on_answer(self, message: Answer, frames: list[Frame]) -> None:
        """Hand over what the cell waits for."""

    def on_question(self, message: Question, frames: list[Frame]) -> None:
        """Answer a question about the namespace."""

    def on_controller(self, message: JoinController | LeaveController, frames: list[Frame]) -> None:
        """Join or leave a controller of ipyparallel."""

    def on_notice(self, message: AboutNotices, frames: list[Frame]) -> None:
        """Take in that a host will be taken away, or that it matters."""

    def on_beginning(self) -> None:
        """Prepare for a cell or a generation; the main thread will find it in the inbox."""

    def take_output(self) -> Message | None:
        """Return a message with what the running cell has said, or None."""

    def look(self) -> None:
        """Look after what the running cell has queued on devices."""


class Link(threading.Thread):
    """Moves messages between the coordinator and the main thread."""

    def __init__(self, config: EngineConfig, handler: LinkHandler) -> None:
        super().__init__(name="link", daemon=True)
        self.inbox: queue.SimpleQueue[Delivery | Callable[[], None]] = queue.SimpleQueue()
        """Also has what others want the main thread to do, as a task of ipyparallel."""
        self.is_cell_waiting = False
        """A cell is in the inbox; whoever takes it out denies that."""
        self.rank = config.info.rank
        """It may become another one with a new generation."""
        self._config, self._handler = config, handler
        on_types: tuple[tuple[Any, Callable[[Any, list[Frame]], None]], ...] = (
            (Answer, handler.on_answer),
            (AbortCommunicator, handler.on_abort),
            (Question, handler.on_question),
            (JoinController | LeaveController, handler.on_controller),
            (AboutNotices, handler.on_notice),
            (ForMain, self._bring),
        )
        self.handlers = {
            kind: handle for union, handle in on_types for kind in get_args(union) or (union,)
        }
        """What becomes of each message, by its type."""
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
        config = self._config
        identity = config.engine.encode()
        context = new_context()
        dealer = Dealer(config.engines_address, config.credentials, to_engine(), identity, context)
        echo_heartbeats(context, config.beats_address, config.credentials, identity)
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
        self._handler.look()
        self._sign.renew()
        said = self._handler.take_output()
        if said is not None:
            dealer.send(said)
        silence_s = dealer.silence_s()
        if silence_s > max(ORPHAN_AFTER_S, self._config.lost_after_s):
            end_out_of_reach(silence_s)

    def _deliver(self, dealer: Dealer[ToEngine]) -> None:
        """Hand over what has arrived; what follows something unreadable is taken next time."""
        try:
            for message, buffers in dealer.receive():
                self.handlers[type(message)](message, buffers)
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

    def _bring(self, message: ForMain, buffers: list[Frame]) -> None:
        """Put a message into the inbox of the main thread."""
        if isinstance(message, RunCell | Welcome):
            self._handler.on_beginning()
        self.is_cell_waiting |= isinstance(message, RunCell)
        self._has_work = True
        self.inbox.put(Delivery(message, buffers))

    def _send_posted(self, dealer: Dealer[ToEngine]) -> None:
        while not self._outbox.empty():
            message, buffers = self._outbox.get()
            dealer.send(message, buffers)
            if isinstance(message, END_OF_WORK):
                self._has_work = False
        self._flushed.set()
