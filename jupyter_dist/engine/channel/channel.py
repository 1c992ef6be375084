"""The engine's end of the control channel, of which one thread at a time is in charge.

While the rank is idle that is the main thread: a cell comes to it without a detour. While a cell
runs it is the link thread: see link.py.
"""

import math
import os
import queue
import select
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol, get_args

import msgspec

from jupyter_dist.control.dealer import AnswersLost
from jupyter_dist.control.poller import Waker
from jupyter_dist.control.relay.engine_dealer import RankHome, open_line
from jupyter_dist.engine.channel.failed_orders import refuse
from jupyter_dist.engine.channel.waiting import Answer
from jupyter_dist.engine.leaving.exit_reason import end_normally
from jupyter_dist.errors import VersionMismatch, WireError
from jupyter_dist.protocol.births import EngineConfig, relay_path
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    AboutDap,
    CommReceived,
    FetchObject,
    HeedNotices,
    HoldDeadlines,
    InputAnswered,
    JoinController,
    Leave,
    LeaveController,
    Message,
    NoticeOver,
    PreemptNotice,
    Question,
    Regroup,
    RunCell,
    SavePointChosen,
    StopNow,
    StoreObjects,
    TakeAxes,
    Welcome,
)
from jupyter_dist.protocol.unreadable import Unreadable

ForMain = Regroup | Welcome | TakeAxes | RunCell | StoreObjects | FetchObject | Leave
"""What waits for the main thread; all else is handled by the thread that is in charge."""

_BEGINNINGS = (RunCell, Welcome)
AboutNotices = HeedNotices | PreemptNotice | SavePointChosen | NoticeOver
AboutDebugger = HoldDeadlines | StopNow | AboutDap


class Delivery(msgspec.Struct, frozen=True):
    """A message for the main thread."""

    message: ForMain
    buffers: list[Frame]


class MessageHandler(Protocol):
    """What the rank does with messages on the thread in charge, while a cell may run."""

    def on_abort(self, message: AbortCommunicator, frames: list[Frame]) -> None:
        """Break the communicator: a peer has failed."""

    def on_answer(self, message: Answer, frames: list[Frame]) -> None:
        """Hand over what the cell waits for."""

    def on_input(self, message: InputAnswered, frames: list[Frame]) -> None:
        """Hand over what a person was asked for."""

    def on_question(self, message: Question, frames: list[Frame]) -> None:
        """Answer a question about the namespace."""

    def on_controller(self, message: JoinController | LeaveController, frames: list[Frame]) -> None:
        """Join or leave a controller of ipyparallel."""

    def on_notice(self, message: AboutNotices, frames: list[Frame]) -> None:
        """Take in that a host will be taken away, or that it matters."""

    def on_widget(self, message: CommReceived, frames: list[Frame]) -> None:
        """Take in what a page says to a widget of this rank."""

    def on_debugger(self, message: AboutDebugger, frames: list[Frame]) -> None:
        """Hold deadlines, or let them go on; leave a debugger."""

    def on_beginning(self) -> None:
        """Prepare for a cell or a generation; the main thread will find it in the inbox."""


class Channel:
    """Messages from and to the coordinator, and what waits for the main thread."""

    def __init__(self, config: EngineConfig, handler: MessageHandler) -> None:
        self.rank = config.info.rank
        """It may become another one with a new generation."""
        self.charge = threading.Lock()
        """Held by the thread that uses the socket, and while it handles a message."""
        self.is_main_idle = False
        """The main thread waits for the next message; read by the link thread."""
        self.busy_since_s = monotonic()
        """Since when it does not; -inf: it is to be looked after by now."""
        self.is_link_asleep = False
        """The link thread would not notice soon that the main thread is busy."""
        self.is_cell_waiting = False
        """A cell is in the inbox; the main thread resets that when it takes it out."""
        self.link_waker = Waker()
        self._config, self._handler = config, handler
        self._pid, self._main = os.getpid(), threading.get_ident()
        on_types: tuple[tuple[Any, Callable[[Any, list[Frame]], None]], ...] = (
            (Answer, handler.on_answer),
            (AbortCommunicator, handler.on_abort),
            (InputAnswered, handler.on_input),
            (Question, handler.on_question),
            (JoinController | LeaveController, handler.on_controller),
            (AboutNotices, handler.on_notice),
            (CommReceived, handler.on_widget),
            (AboutDebugger, handler.on_debugger),
            (ForMain, self._bring),
        )
        self.handlers = {
            kind: handle for union, handle in on_types for kind in get_args(union) or (union,)
        }
        """What becomes of each message, by its type."""
        self._inbox: queue.SimpleQueue[Delivery | Callable[[], None]] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[tuple[Message, Sequence[Frame]]] = queue.SimpleQueue()
        self._main_waker = Waker()
        self._poll = select.poll()
        self._woken = self._main_waker.pollable, select.POLLIN
        self._poll.register(*self._woken)

    def open(self, context: Any) -> None:
        """Dial the coordinator, in this context of ZeroMQ. Raise WireError for a wrong address."""
        config = self._config
        home = RankHome(
            config.engines_address,
            config.beats_address,
            config.credentials,
            config.engine.encode(),
            relay_path(config.run_dir) if config.relay else "",
            config.lost_after_s,
        )
        self._dealer = open_line(context, home)
        self._poll.register(self.fileno, select.POLLIN)
        self._connection = self._dealer.monitor_fileno
        self._poll.register(self._connection, select.POLLIN)
        self.silence_s()  # from now on libzmq tells of each event there

    @property
    def fileno(self) -> int:
        """The descriptor that becomes readable when there may be something to `serve`.

        Only after a `serve`: libzmq tells of each change once.
        """
        return self._dealer.fileno

    def post(self, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send a message soon; from any thread, also within user code.

        The link thread takes over with it: an answer may come at once.
        """
        self.busy_since_s = -math.inf
        self._outbox.put((message, buffers))
        self.link_waker.wake()

    def answer(self, message: Message, buffers: Sequence[Frame] = ()) -> None:
        """Send a message now: on the main thread, outside of user code.

        An exception that is raised by a handler of a signal would tear the message. A process that
        user code has forked, and that comes to the end of the cell as well, ends here.
        """
        if os.getpid() != self._pid:
            end_normally()
        with self.charge:
            if not self._outbox.empty():
                self._send_posted()
            self._dealer.send(message, buffers)

    def flush(self) -> None:
        """Send what was posted now; on the main thread, outside of user code."""
        with self.charge:
            self._send_posted()

    def hand_over(self, work: Callable[[], None]) -> None:
        """Have the main thread call this between two messages; from any thread."""
        self._put(work)

    def next_work(self) -> Delivery | Callable[[], None]:
        """Wait for the next message for the main thread, or a call, and be in charge meanwhile."""
        self.is_main_idle = True
        try:
            while True:
                with self.charge:
                    self.serve(until_work=True)
                if not self._inbox.empty():
                    return self._inbox.get()
                ready = self._poll.poll()
                if self._woken in ready:
                    self._main_waker.clear()
                if (self._connection, select.POLLIN) in ready:
                    with self.charge:
                        self.silence_s()  # where its relay is gone, it dials on its own
        finally:
            self.busy_since_s = monotonic()
            self.is_main_idle = False
            if self.is_link_asleep:
                self.link_waker.wake()

    @property
    def has_posted(self) -> bool:
        """Something is to be sent."""
        return not self._outbox.empty()

    def serve(self, *, until_work: bool = False) -> None:
        """Send what was posted, handle what has arrived; for the thread in charge.

        `until_work`: leave what comes behind a message for the main thread to who serves next. To
        look once more takes as long as to receive a message.
        """
        self._deliver(until_work)
        while not self._outbox.empty():
            self._send_posted()
            self._deliver()  # to send is to look at the descriptor, which then says no more

    def send(self, message: Message) -> None:
        """Send a message now; for the thread in charge."""
        self._dealer.send(message)

    @property
    def look_interval_s(self) -> float:
        """How often `silence_s` has to be asked for, at least."""
        return self._dealer.look_interval_s

    def silence_s(self) -> float:
        """Return for how long there is no connection (0 while there is one); when in charge."""
        return self._dealer.silence_s()

    def _send_posted(self) -> None:
        while not self._outbox.empty():
            self._dealer.send(*self._outbox.get())

    def _deliver(self, until_work: bool = False) -> None:
        """Handle what has arrived, also what follows something unreadable."""
        while True:
            try:
                for message, buffers in self._dealer.receive():
                    self.handlers[type(message)](message, buffers)
                    if until_work and not self._inbox.empty():
                        return
            except VersionMismatch:
                # The coordinator speaks another version: nothing sensible can follow.
                self._put(Delivery(Leave(), []))
            except Unreadable as problem:
                answer = refuse(problem, self.rank)
                if answer is not None:
                    self._dealer.send(answer)
            except AnswersLost:  # it was forgotten: it hears next that its rank has another engine
                continue
            except WireError:  # fewer frames than any message has: it asks for nothing
                with suppress(Exception):  # sys.stderr is what a cell has made of it
                    traceback.print_exc()
            else:
                return

    def _bring(self, message: ForMain, buffers: list[Frame]) -> None:
        """Put a message into the inbox of the main thread."""
        if isinstance(message, _BEGINNINGS):
            self._handler.on_beginning()
            self.is_cell_waiting |= message.__class__ is RunCell
        self._put(Delivery(message, buffers))

    def _put(self, work: Delivery | Callable[[], None]) -> None:
        self._inbox.put(work)
        if self.is_main_idle and threading.get_ident() != self._main:
            self._main_waker.wake()
